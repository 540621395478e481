//! `argus network --verify`: a check on request, with or without a controller.

use argus_tests::fixture::LIMIT;
use argus_tests::http;

use super::fixture::{BARE, SHOP_LINKS, controller, engine, helpers, links, network, no_helper_stays, shop};

#[test]
fn shell_less_services_reach_each_other_and_mocks() {
    let engine = engine();
    let argus = controller(engine);
    argus.write_spec("e2e.yaml", &shop("bare", 19000, 8080));
    argus.wait_ready("bare", LIMIT);
    let (code, output) = network(&argus, "bare", &["--verify"]);
    assert_eq!(links(&output), SHOP_LINKS, "{output:#}");
    assert_eq!((code, &output["verified"]), (Some(0), &true.into()), "{output:#}");
    no_helper_stays(engine, "bare");

    // The same over HTTP, from the controller itself.
    let (socket, path) = (
        argus.state.join("private/argus.sock"),
        "/api/v1/environments/bare/network",
    );
    let seen = http::request(&socket, "POST", path, "application/json", b"{}", LIMIT).expect("an answer");
    assert_eq!(links(&seen.json()), links(&output), "{seen:?}");
    assert_eq!(seen.json()["verified"], true, "{seen:?}");
    no_helper_stays(engine, "bare");

    // Without a controller, and with a missing environment.
    argus.stop();
    engine.docker_ok(&["stop", "-t", "0", "bare-mock-payments"]);
    let (code, output) = network(&argus, "bare", &["--verify"]);
    assert_eq!(code, Some(1), "{output:#}");
    let error = &output["errors"][0];
    assert_eq!(error["code"], "DNS_RESOLUTION_FAILED", "{output:#}");
    let details = &error["details"];
    assert_eq!(details["host"], "payments");
    assert_eq!(details["target"]["state"], "notRunning");
    assert_eq!(details["network"]["name"], "argusai-bare-network");
    let members = details["members"].as_array().expect("the members of the network");
    assert_eq!(members.len(), 3, "{details:#}");
    assert_eq!(helpers(engine, "bare"), 0, "no helper container remains");
}

#[test]
fn refused_port_is_reported_with_its_topology() {
    let engine = engine();
    let argus = controller(engine);
    argus.write_spec("e2e.yaml", &shop("refused", 19010, 5432));
    argus.wait_ready("refused", LIMIT);
    let (code, output) = network(&argus, "refused", &["--verify"]);
    assert_eq!(code, Some(1), "{output:#}");
    assert_eq!(links(&output)[0], "api -> db:5432 connection refused");
    let error = &output["errors"][0];
    assert_eq!(error["code"], "NETWORK_UNREACHABLE");
    assert_eq!(error["service"], "api");
    let details = &error["details"];
    assert_eq!(
        (&details["port"], &details["failure"]),
        (&5432.into(), &"refused".into())
    );
    assert_eq!(details["target"]["state"], "attached");
    let db = details["topology"]
        .as_array()
        .and_then(|all| all.iter().find(|one| one["service"] == "db"))
        .expect("the topology contains db");
    assert_eq!(db["networks"][0]["name"], "argusai-refused-network");
    assert_eq!(
        db["networks"][0]["address"], details["addresses"][0],
        "{details:#}"
    );
    assert!(!output.to_string().contains("secret"), "{output:#}");
}

#[test]
fn shell_less_service_reaches_three_mocks_by_name() {
    let engine = engine();
    let argus = controller(engine);
    let mock = |name: &str, port: u16| {
        format!(
            "  {name}: {{ port: {port}, containerPort: 8080, routes: [{{ method: GET, path: /x, response: {{ body: {name} }} }}] }}\n"
        )
    };
    let mocks: String = [("one", 19110), ("two", 19111), ("three", 19112)]
        .map(|(name, port)| mock(name, port))
        .concat();
    argus.write_spec(
        "e2e.yaml",
        &format!(
            "version: \"1\"\nproject: {{ name: trio }}\nservices:\n  web:\n    image: {BARE}\n    command: [demo-service]\n    container:\n      name: trio-web\n      \
             environment: {{ ONE: 'http://one:8080', TWO: 'two:8080', THREE: 'http://three:8080/x' }}\nmocks:\n{mocks}"
        ),
    );
    argus.wait_ready("trio", LIMIT);
    let (code, output) = network(&argus, "trio", &["--verify"]);
    assert_eq!(
        links(&output),
        ["web -> one:8080", "web -> three:8080", "web -> two:8080"],
        "{output:#}"
    );
    assert_eq!((code, &output["verified"]), (Some(0), &true.into()), "{output:#}");
}
