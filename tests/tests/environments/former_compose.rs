//! A project that Compose ran before, on a real engine: its volumes and containers, and a volume without its labels.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use super::compose_files::line;
use super::first_hour::NewUser;
use super::repositories::Run;

const FORMER: &str = r#"name: former
services:
  web:
    image: busybox:local
    command: ["httpd", "-f", "-p", "8080", "-h", "/data"]
    ports: ["18340:8080"]
    volumes: ["data:/data"]
    stop_grace_period: 1s
  store:
    image: busybox:local
    command: sleep 3600
    container_name: former-store
    stop_grace_period: 1s
volumes:
  data: {}
"#;

/// Creates the objects of `docker compose up`: a volume with data, and two containers, which hold a name and a port.
fn run_compose(me: &NewUser) {
    let label = "--label com.docker.compose.project=former";
    let image = "--volume former_data:/data busybox:local";
    for words in [
        format!("docker volume create {label} --label com.docker.compose.volume=data former_data"),
        format!("docker run --rm {image} sh -c 'echo rows > /data/index.html'"),
        format!("docker run -d {label} --name former-store busybox:local"),
        format!(
            "docker run -d {label} --name former-web-1 -p 127.0.0.1:18340:8080 {image} httpd -f -p 8080 -h /data"
        ),
    ] {
        me.types(&words, 0);
    }
}

#[test]
fn former_compose_project_is_named_and_its_volume_used() {
    let me = NewUser::clones("former", &[("compose.yaml", FORMER)]);
    run_compose(&me);
    let shows = |words: &str, parts: &[&str]| {
        let shown = me.types(&format!("{words} || true"), 0);
        parts.iter().all(|part| shown.contains(part)).then_some(())
    };
    let run = Run::start(&me.engine, &me.folder, &["run", "compose.yaml"]);
    run.until("the holder of the volume is named", || {
        let remedies = [
            "`former_data`",
            "`docker compose -p former down` keeps the volume",
            "`argus allow` uses it",
        ];
        shows("argus why former", &remedies)
    });
    run.until("the holder of the name is named", || {
        let holder = "the Compose project `former` (`docker compose -p former down` ends it)";
        shows("argus why former/store", &["`former-store`", holder])
    });
    // No empty volume replaces the data.
    me.types("docker volume inspect argusai-former_data", 1);
    assert!(me.engine.inspect("former-web").is_none());
    drop(run);

    me.sees("argus allow", &["is allowed"]);
    let run = Run::start(&me.engine, &me.folder, &["run", "compose.yaml"]);
    run.until("the holder of the port is named", || {
        let holder = "container `former-web-1` of the Compose project `former`";
        let command = "`docker compose -p former down`";
        shows("argus events former --type port_conflict", &[holder, command])
    });
    // `docker compose down` keeps the volume.
    me.types("docker rm -f former-store former-web-1", 0);
    me.types("argus retry former", 0);
    me.waits();
    let web = me.engine.inspect("former-web").unwrap();
    assert_eq!(web["Mounts"][0]["Name"], "former_data");
    me.sees("argus exec former/web -- cat /data/index.html", &["rows"]);

    me.sees("argus down former --volumes", &["former gone"]);
    me.types("docker volume inspect argusai-former_data", 1);
    me.sees(
        "docker run --rm --volume former_data:/data busybox:local cat /data/index.html",
        &["rows"],
    );
}

const OUTER: &str = r#"services:
  db:
    image: busybox:local
    command: sleep 3600
    volumes: ["data:/data"]
    stop_grace_period: 1s
volumes:
  data: {}
"#;

#[test]
fn volume_without_labels_needs_a_key_and_an_operator() {
    let me = NewUser::clones("outer", &[("compose.yaml", OUTER)]);
    me.types(
        "docker run --rm --volume outer_data:/data busybox:local sh -c 'echo rows > /data/rows'",
        0,
    );
    let volume = || Some(me.engine.inspect("outer-db")?["Mounts"][0]["Name"].clone());
    let run = Run::start(&me.engine, &me.folder, &["run", "compose.yaml"]);
    me.waits();
    // The name alone gives nothing: the environment has a new volume.
    assert_eq!(volume().unwrap(), "argusai-outer_data");
    me.types("argus exec outer/db -- test -e /data/rows", 1);

    let external = "data: { external: true, name: outer_data }";
    me.replaces("compose.yaml", "data: {}", external);
    let place = format!("compose.yaml:{}", line(OUTER, "data: {}"));
    let parts = [place.as_str(), "`argus allow`", "`--allow-external NAME`"];
    me.fails("argus validate compose.yaml", 3, &parts);
    let other = "argus validate compose.yaml --allow-external shop_data";
    me.fails(other, 3, &parts);
    run.until("the controller rejects the edit", || {
        let shown = me.types("argus describe outer", 0);
        shown.contains(&place).then_some(())
    });
    assert_eq!(volume().unwrap(), "argusai-outer_data");
    drop(run);

    let words = ["run", "compose.yaml", "--allow-external", "outer_data"];
    let run = Run::start(&me.engine, &me.folder, &words);
    run.until("the external volume is mounted", || {
        volume().filter(|name| name == "outer_data")
    });
    me.waits();
    me.types("argus exec outer/db -- test -e /data/rows", 0);
    me.sees("argus down outer --volumes", &["outer gone"]);
    me.types("docker volume inspect outer_data", 0);
}
