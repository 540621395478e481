//! Mounts at places that an image does not read.

use crate::remedy::test_environment::TestEnvironment;

fn web(image: &str, volumes: &str) -> TestEnvironment {
    let text = format!("  web: {{ image: \"{image}\", container: {{ name: web, volumes: [{volumes}] }} }}\n");
    TestEnvironment::new(&text).wrote("stopped")
}

#[test]
fn mount_in_a_folder_that_no_image_reads_is_moved() {
    for (image, volume, meant) in [
        (
            "nginx:1.27",
            "./site.conf:/etc/nginx/sites/site.conf",
            "./site.conf:/etc/nginx/conf.d/site.conf",
        ),
        (
            "nginx:1.27",
            "./conf:/etc/nginx/config.d",
            "./conf:/etc/nginx/conf.d",
        ),
        (
            "quay.io/keycloak/keycloak:26.0",
            "./realm.json:/opt/keycloak/import/realm.json",
            "./realm.json:/opt/keycloak/data/import/realm.json",
        ),
        (
            "grafana/grafana:11.0.0",
            "./source.yml:/etc/grafana/datasources/source.yml",
            "./source.yml:/etc/grafana/provisioning/datasources/source.yml",
        ),
    ] {
        web(image, &format!("\"{volume}\"")).assert_edit("web.container.volumes[0]", meant);
    }
}

#[test]
fn mount_in_a_folder_of_the_image_stays() {
    for volumes in [
        "\"./nginx.conf:/etc/nginx/conf.d/nginx.conf\"",
        "\"./nginx.conf:/etc/nginx/nginx.conf\", \"./proxy.conf:/etc/nginx/proxy.conf\"",
        "\"./nginx:/etc/nginx\", \"./site.conf:/srv/site.conf\"",
    ] {
        assert_eq!(web("nginx:1.27", volumes).text(), "none", "{volumes}");
    }
}

#[test]
fn script_of_a_database_is_in_its_folder() {
    let shop = |target: &str| {
        let db = format!(
            "  db: {{ image: \"postgres:16\", container: {{ name: db, volumes: [\"./seed.sql:{target}\"] }} }}\n"
        );
        let web = "  web: { image: \"shop/web:1\", container: { name: web, environment: { URL: \"postgres://db/shop\" } } }\n";
        TestEnvironment::new(&format!("{db}{web}")).wrote("ERROR: relation \"users\" does not exist")
    };
    shop("/seed/seed.sql").assert_edit(
        "db.container.volumes[0]",
        "./seed.sql:/docker-entrypoint-initdb.d/seed.sql",
    );
    assert_eq!(shop("/docker-entrypoint-initdb.d/seed.sql").text(), "none");
}

#[test]
fn missing_path_is_in_a_configuration_that_nothing_reads() {
    let nginx = |target: &str| {
        let text = format!(
            "  web: {{ image: \"nginx:1.27\", container: {{ name: web, volumes: [\"./site.conf:{target}\"], healthcheck: {{ path: /api, port: 80 }} }} }}\n"
        );
        TestEnvironment::new(&text).unhealthy("GET /api on :80: 404 Not Found", &["0.0.0.0:80"])
    };
    nginx("/etc/nginx/site.conf").assert_edit("web.container.volumes[0]", "/etc/nginx/conf.d/site.conf");
    let text = nginx("/etc/nginx/conf.d/site.conf").text();
    assert!(!text.contains("volumes"), "{text}");
}
