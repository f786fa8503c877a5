//! The program: serve, CLI, composition of all roles.
