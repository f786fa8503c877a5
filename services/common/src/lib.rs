//! What every role needs: settings, telemetry, lifecycle, gRPC transport, errors, ids, money, clock, secrets, database, change feed.
