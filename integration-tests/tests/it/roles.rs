//! Which role may call what (SEC-1): every method of the protos by every role, and a real listener that keeps to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use prost_reflect::DescriptorPool;
use switchboard_common::clock::SystemClock;
use switchboard_common::grpc::{GrpcConfig, Role, ServiceTokens, may_call, remote};
use switchboard_common::secret::MasterKey;
use switchboard_integration_tests::stack::Stack;
use switchboard_proto::auth::v1::AuthenticateRequest;
use switchboard_proto::auth::v1::auth_client::AuthClient;
use switchboard_proto::billing::v1::VerifyLedgerRequest;
use switchboard_proto::billing::v1::billing_admin_client::BillingAdminClient;
use switchboard_proto::credentials::v1::GetRequest;
use switchboard_proto::credentials::v1::credentials_client::CredentialsClient;
use tonic::Code;

/// The whole of it: service (or one method of it), and who may call. What stands nowhere nobody may call.
const EXPECTED: [(&str, &[Role]); 10] = [
    ("switchboard.auth.v1.Auth", &[Role::Forwarder]),
    ("switchboard.auth.v1.AuthAdmin", &[Role::Edge]),
    ("switchboard.billing.v1.Billing", &[Role::Forwarder]),
    ("switchboard.billing.v1.BillingAdmin", &[Role::Edge]),
    ("switchboard.credentials.v1.Credentials", &[Role::Forwarder]),
    ("switchboard.credentials.v1.CredentialsAdmin", &[Role::Edge]),
    ("switchboard.inference.v1.Inference", &[]),
    ("switchboard.inference.v1.Inference/Relay", &[Role::Edge]),
    ("switchboard.scheduler.v1.Scheduler", &[Role::Forwarder]),
    ("switchboard.scheduler.v1.SchedulerAdmin", &[Role::Edge]),
];

#[test]
fn every_method_and_every_role_is_as_the_table_says() {
    let pool = DescriptorPool::decode(switchboard_proto::DESCRIPTORS).unwrap();
    let table: BTreeMap<&str, &[Role]> = EXPECTED.into();
    let mut services = BTreeSet::new();
    let mut pairs = 0;
    for service in pool.services() {
        services.insert(service.full_name().to_owned());
        for method in service.methods() {
            let name = format!("{}/{}", service.full_name(), method.name());
            let may = table
                .get(name.as_str())
                .or_else(|| table.get(service.full_name()));
            let may = may.unwrap_or_else(|| panic!("nobody decided who may call {name}"));
            for role in Role::ALL {
                pairs += 1;
                assert_eq!(
                    may_call(role, &format!("/{name}")),
                    may.contains(&role),
                    "{role} calls {name}"
                );
            }
        }
    }
    let decided: BTreeSet<String> = EXPECTED
        .iter()
        .map(|(name, _)| name.split('/').next().unwrap().to_owned())
        .collect();
    assert_eq!(
        services, decided,
        "a service that is decided about is in the protos, and the other way round"
    );
    assert!(pairs > 200, "{pairs}");
}

#[test]
fn what_the_table_does_not_know_nobody_may_call() {
    let unknown = [
        "/switchboard.auth.v1.Auth2/Authenticate",
        "/switchboard.auth.v1/Authenticate",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/",
        "",
        "nothing",
    ];
    for method in unknown {
        for role in Role::ALL {
            assert!(!may_call(role, method), "{role} calls {method}");
        }
    }
}

fn tokens(key: [u8; 32]) -> ServiceTokens {
    ServiceTokens::new(
        &MasterKey::from_bytes(key),
        Arc::new(SystemClock),
        Duration::from_secs(60),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_listener_proves_the_role_and_keeps_to_the_table() {
    let stack = Stack::split().start().await;
    let master = MasterKey::load(&stack.master_key_file()).unwrap();
    let genuine = ServiceTokens::new(&master, Arc::new(SystemClock), Duration::from_secs(60));
    let forged = tokens([1; 32]);
    let config = GrpcConfig::default();
    let rpc = |target: Role, caller: Role, tokens: &ServiceTokens| {
        remote(&[stack.internal(target)], caller, tokens.clone(), &config).unwrap()
    };
    let get = GetRequest {
        account: "a".to_owned(),
        ..GetRequest::default()
    };
    for role in Role::ALL {
        // The secret of an account: for the forwarder alone.
        let vault = CredentialsClient::new(rpc(Role::TokenRefresh, role, &genuine))
            .get(get.clone())
            .await;
        if role == Role::Forwarder {
            assert!(vault.is_ok(), "{vault:?}");
        } else {
            assert_eq!(vault.unwrap_err().code(), Code::PermissionDenied, "{role}");
        }
        let verify = BillingAdminClient::new(rpc(Role::Billing, role, &genuine))
            .verify_ledger(VerifyLedgerRequest {})
            .await;
        if role == Role::Edge {
            assert!(verify.is_ok(), "{verify:?}");
        } else {
            assert_eq!(verify.unwrap_err().code(), Code::PermissionDenied, "{role}");
        }
        // Another master key proves nothing.
        let refused = CredentialsClient::new(rpc(Role::TokenRefresh, role, &forged))
            .get(get.clone())
            .await;
        assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated, "{role}");
    }
    // Nor does a stranger that says nothing, or says something.
    let address = format!("http://{}", stack.internal(Role::Auth));
    let channel = tonic::transport::Endpoint::from_shared(address)
        .unwrap()
        .connect_lazy();
    let ask = || AuthenticateRequest {
        credential: "anything".to_owned(),
    };
    let refused = AuthClient::new(channel.clone())
        .authenticate(ask())
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    for lie in [
        "1.forwarder.99999999999.00",
        "forwarder",
        "1.forwarder.99999999999",
    ] {
        let mut request = tonic::Request::new(ask());
        request
            .metadata_mut()
            .insert("x-switchboard-service", lie.parse().unwrap());
        let refused = AuthClient::new(channel.clone())
            .authenticate(request)
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{lie}");
    }
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn admin_services_are_reached_through_the_edge_with_an_admins_token_alone() {
    let stack = Stack::in_process().start().await;
    assert!(stack.verify().await.balanced);
    let secret = switchboard_integration_tests::setup::secret_of("k");
    for token in ["", "sb-admin-wrong", secret.as_str()] {
        let endpoint =
            tonic::transport::Endpoint::from_shared(format!("http://{}", stack.edges()[0]))
                .unwrap();
        let mut request = tonic::Request::new(VerifyLedgerRequest {});
        if !token.is_empty() {
            request
                .metadata_mut()
                .insert("authorization", format!("Bearer {token}").parse().unwrap());
        }
        let refused = BillingAdminClient::new(endpoint.connect_lazy())
            .verify_ledger(request)
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{token}");
    }
    // Services that are not for admins are no path at all here, whoever asks.
    let endpoint =
        tonic::transport::Endpoint::from_shared(format!("http://{}", stack.edges()[0])).unwrap();
    let mut request = tonic::Request::new(GetRequest {
        account: "a".to_owned(),
        ..GetRequest::default()
    });
    let token = format!("Bearer {}", stack.admin_token());
    request
        .metadata_mut()
        .insert("authorization", token.parse().unwrap());
    let refused = CredentialsClient::new(endpoint.connect_lazy())
        .get(request)
        .await
        .unwrap_err();
    assert_ne!(refused.code(), Code::Ok, "{refused:?}");
    assert!(!format!("{refused:?}").contains("upstream-secret-of"));
    stack.finish().await;
}
