//! Tests of the edits for refused logins.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::labels;
use crate::observed::Volume;
use crate::remedy::test_environment::TestEnvironment;

const NAME: &str = "argusai-shop_data";

fn shop(services: &str, created_at: Option<&str>) -> TestEnvironment {
    let line = "psql: error: FATAL:  password authentication failed for user \"shop\"";
    let mut environment = TestEnvironment::new(services).wrote(line);
    let created_at = created_at.map(|at| (labels::CREATED_AT.to_owned(), at.to_owned()));
    let volume = Volume {
        name: NAME.to_owned(),
        labels: created_at.into_iter().collect::<BTreeMap<_, _>>(),
    };
    environment.volumes.insert(NAME.to_owned(), Arc::new(volume));
    environment
}

#[test]
fn volume_keeps_the_password_of_its_first_start() {
    let services =
        "  db: { image: \"postgres:16\", container: { name: db, volumes: [\"data:/var/lib/postgresql/data\"],
    environment: { POSTGRES_PASSWORD: new-secret } } }
  web: { image: \"web:1\", container: { name: web, environment: { URL: \"postgres://u:new-secret@db/x\" } } }
volumes: { data: {} }\n";
    let old = Some("1970-01-01T00:00:00.5Z");
    let edit = shop(services, old);
    edit.assert_edit(
        "db.container.environment.POSTGRES_PASSWORD",
        "keeps the password of its first start",
    );
    edit.assert_edit(
        "db.container.environment.POSTGRES_PASSWORD",
        "`argus down shop --volumes`",
    );
    // The volume is newer than this revision, or of an unknown age.
    assert_eq!(shop(services, None).text(), "none");
    assert_eq!(shop(services, Some("2026-11-30T13:00:00Z")).text(), "none");
    let other = services.replace("u:new-secret@", "u:another@");
    shop(&other, old).assert_edit("web.container.environment.URL", "its password differs");
    let none = services.replace("volumes: [\"data:/var/lib/postgresql/data\"],", "");
    assert_eq!(shop(&none, old).text(), "none");
    // Another value, or a part of one, is not the password.
    let sends = |url: &str, password: &str| {
        let services = services.replace("postgres://u:new-secret@db/x", url);
        shop(&services.replace("new-secret", password), old).text()
    };
    let list = "Host=db;Username=shop;Password=wrong";
    assert!(!sends(list, "shop").contains("first start"));
    assert!(!sends("Host=db;Password=shop2", "shop").contains("first start"));
    assert!(sends("Host=db;Password=shop", "shop").contains("first start"));
    assert!(sends("db:5432,password='shop',ssl=false", "shop").contains("first start"));
}

#[test]
fn compose_password_is_the_variable_of_its_server() {
    let services = "  db: { image: \"postgres:16\", container: { name: db, environment: { POSTGRES_PASSWORD: right-secret } } }
  web: { image: \"web:1\", container: { name: web, environment: { URL: \"postgres://u:wrong@db/x\" } } }\n";
    let line = "FATAL:  password authentication failed for user \"u\"";
    let text = |value: &str| {
        let written = services.replace("right-secret", value);
        TestEnvironment::compose_with(services, &written)
            .wrote(line)
            .text()
    };
    let found = text("\"{{env.PASSWORD}}\"");
    assert!(found.contains("write `${PASSWORD}` as its password"), "{found}");
    let found = text("right-secret");
    assert!(
        found.contains("write the value of `POSTGRES_PASSWORD` of `db`"),
        "{found}"
    );
}
