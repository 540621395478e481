//! Addresses and variables in `ADD`.

use super::super::address::{PRIVATE, UNUSUAL};
use super::*;

fn refused(text: &str) -> Option<(usize, &'static str)> {
    let args = BTreeMap::from([("GIVEN".to_owned(), "10.0.0.1".to_owned())]);
    let found = find_refused_source(text, &args)?;
    Some((found.instruction.line, found.why))
}

#[test]
fn address_of_the_host_is_refused_in_each_spelling() {
    for source in [
        "http://127.0.0.1:9470/metrics",
        "HTTP://LocalHost/",
        "https://user:word@[::1]:8080/a",
        "http://[::ffff:10.0.0.1]/",
        "http://[fe80::1]/",
        "http://169.254.169.254/latest/meta-data",
        "http://0.0.0.0:80",
        "http://100.64.0.1/",
        "http://100.127.255.255/",
        "http://172.31.0.1/",
        "http://192.0.0.8/",
        "http://192.0.2.1/",
        "http://192.88.99.1/",
        "http://198.19.255.1/",
        "http://198.51.100.1/",
        "http://203.0.113.1/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://[::]/",
        "http://[::7f00:1]/",
        "http://[::ffff:8.8.8.8]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[64:ff9b:1::1]/",
        "http://[100::1]/",
        "http://[2001::1]/",
        "http://[2001:1ff::1]/",
        "http://[2001:db8::1]/",
        "http://[2002:7f00:1::1]/",
        "http://[3fff:fff::1]/",
        "http://[5f00::1]/",
        "http://[fd00::1]/",
        "http://[fec0::1]/",
        "http://[ff02::1]/",
        "http://192.168.1.1?x",
        "http://a.local/x",
        "http://host.docker.internal./x",
        "http://build-machine:9470/metrics",
        "git@mirror:a/b.git",
        "git@127.0.0.1:repo.git",
        "https://172.16.0.1/repo.git#main",
        "\"http://127.0.0.1/\"",
        "ht\\tp://12'7.0'.0.1/",
    ] {
        let text = format!("FROM busybox\nADD --checksum=x file {source} /x");
        assert_eq!(refused(&text), Some((2, PRIVATE)), "{source}");
    }
    for source in [
        "http://127.1/",
        "http://0x7f.1/",
        "http://2130706433/",
        "http://１27.0.0.1/",
    ] {
        assert_eq!(
            refused(&format!("ADD {source} /x")),
            Some((1, UNUSUAL)),
            "{source}"
        );
    }
}

#[test]
fn public_addresses_and_files_are_accepted() {
    for line in [
        "ADD https://example.com/v$VERSION/x-${TARGETARCH}.tgz?a=${X:-1} /x",
        "ADD https://8.8.8.8/x https://[2600:1f00::1]/x https://100.128.0.1/x /x",
        "ADD app-${VERSION}.jar target/$NAME ./$NAME $HOME/",
        "ADD git@github.com:a/b.git /x",
        "ADD http://localhost/",
        "RUN curl http://127.0.0.1/ /x",
        "COPY http://127.0.0.1/ /x",
        "# ADD http://127.0.0.1/ /x",
        "ARG URL=https://example.com\nENV PAGE=${URL}/a\nADD $PAGE $URL/b /x",
        "ARG JAR=target/*.jar\nADD ${JAR} app.jar",
    ] {
        assert_eq!(refused(line), None, "{line}");
    }
}

#[test]
fn address_behind_a_variable_is_refused() {
    for (text, why) in [
        ("ARG A=127.0.0.1\nADD http://$A/ /x", PRIVATE),
        ("ARG GIVEN\nADD http://${GIVEN}/ /x", PRIVATE),
        ("ENV A http://localhost/\nADD $A /x", PRIVATE),
        ("ENV A=x B='http://localhost/'\nENV C=$B\nADD $C /x", PRIVATE),
        ("ENV A=http://localhost/\nENV A=b\nFROM c\nADD $A /x", PRIVATE),
        ("ARG A=.example.com\nFROM b\nADD http://127.0.0.1$A/ /x", PRIVATE),
        ("ADD $OTHER /x", UNKNOWN),
        ("ADD http://$OTHER/ /x", UNKNOWN),
        ("ADD h${OTHER}ttp://127.0.0.1/ /x", UNKNOWN),
        ("ADD ${A:-http://127.0.0.1/} /x", UNKNOWN),
        ("ENV A=$A$A\nADD $A /x", TOO_LONG),
    ] {
        assert_eq!(refused(text).map(|found| found.1), Some(why), "{text}");
    }
}

#[test]
fn variable_of_the_base_image_is_unknown() {
    let ok = "https://example.com/x";
    for text in [
        "FROM b\nARG U\nADD $U /x",
        "FROM b AS q\nFROM q\nARG U\nADD ${U} /x",
        "ARG U=OK\nFROM b\nADD ${U} /x",
        "FROM b AS q\nARG U=OK\nFROM q\nADD ${U} /x",
        "ARG U\nFROM b\nARG U\nADD ${U} /x",
        "FROM b\nADD $U /x\nARG U=OK",
        "FROM b\nENV P=$U\nARG U=OK\nADD $P /x",
        "FROM b\nENV U=OK P=$U\nADD $P /x",
        "FROM b\nENV U=OK\nENV U=$V\nADD $U /x",
        "FROM b\nENV U=OK N=U\nENV $N=$V\nADD $U /x",
        "FROM b\nARG U=OK\nENV \"A B\"=x U=$V\nADD $U /x",
        "FROM b\nARG U=OK\nENV \"U\" $V\nADD $U /x",
        "FROM b\nADD $TARGETARCH /x",
        "FROM b\nARG BUILDKIT_SBOM_SCAN_STAGE=OK\nADD $BUILDKIT_SBOM_SCAN_STAGE /x",
        // No instruction, or none of this stage.
        "FROM b\nRUN <<A\nARG U=OK\nA\nADD $U /x",
        "FROM b\nRUN <\\\n<A\nARG U=OK\nA\nADD $U /x",
        "FROM b\nRUN true \\\nARG U=OK\nADD $U /x",
        "FROM b\nONBUILD ARG U=OK\nADD $U /x",
        "FROM b\nENV A=\"x U=OK\"\nADD $U /x",
        "FROM b\nENV A=\"'\"' U=OK'\nADD $U /x",
        "FROM b\nENV A=x\\ U=OK\nADD $U /x",
        "# escape=`\nFROM b\nARG A \\\nLABEL U=OK\nADD $U /x",
        "FROM b\nARG UX=OK\nADD $U\"X\" /x",
    ] {
        let found = refused(&text.replace("OK", ok)).map(|found| found.1);
        assert_eq!(found, Some(UNKNOWN), "{text}");
    }
    for text in [
        "FROM b\nARG U=OK\nADD $U /x",
        "FROM b\nENV A=1 \\\n  U=\"OK\"\nADD $U /x",
        "FROM b\nENV U OK\nENV P=${U}\nADD \"$P\" /x",
        "ARG U=OK\nFROM b\nARG U\nADD $U /x",
        "FROM b\nARG TARGETARCH\nADD $TARGETARCH /x",
    ] {
        assert_eq!(refused(&text.replace("OK", ok)), None, "{text}");
    }
    let args = BTreeMap::from([("U".to_owned(), ok.to_owned())]);
    assert_eq!(find_refused_source("FROM b\nARG U\nADD $U /x", &args), None);
    assert!(find_refused_source("FROM b\nADD $U /x", &args).is_some());
}

#[test]
fn instruction_is_found_in_each_form() {
    let long = "\\\n".repeat(70);
    for (text, line) in [
        ("onbuild add http://127.0.0.1/ /x", 1),
        ("\u{feff}  ADD [\"\\u0068ttp://127.0.0.1/\", \"/x\"]", 1),
        ("FROM a\nAD\\\n# comment\n\nD http://127.0.\\\n0.1/ /x", 2),
        ("# escape=`\nCOPY a \\\nADD http://127.0.0.1/ `\n /x", 3),
        ("RUN <<'X\\'\nX\\\nADD \\\n http://127.0.0.1/ /x", 3),
        ("RUN <<A\n A\nRUN <<B\nA\nADD http://127.0.0.1/ /x", 5),
        (&*format!("A{long}DD http://127.0.0.1/ /x"), 1),
        (&*format!("ADD {long}http://127.0.0.1/ /x"), 1),
        (&*format!("ONBUILD {long}ADD http://127.0.0.1/ /x"), 1),
    ] {
        assert_eq!(refused(text).map(|found| found.0), Some(line), "{text}");
    }
    let run = format!("RUN true {}", "&& true \\\n".repeat(100));
    assert_eq!(refused(&run), None);
}
