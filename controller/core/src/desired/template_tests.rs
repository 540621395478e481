//! Tests of the templates in a text.

use super::*;

#[test]
fn pieces_splits_at_paired_braces() {
    use Segment::{Template, Text};
    let cases: [(&str, &[Segment<'_>]); 12] = [
        ("", &[]),
        ("plain {x}", &[Text("plain {x}")]),
        ("{{env.X}}", &[Template("env.X", "{{env.X}}")]),
        (
            "a{{ uuid }}b{{date}}",
            &[
                Text("a"),
                Template("uuid", "{{ uuid }}"),
                Text("b"),
                Template("date", "{{date}}"),
            ],
        ),
        ("{{open", &[Text("{{open")]),
        ("{{}}", &[Text("{{}}")]),
        ("{{}}{{x}}", &[Text("{{}}"), Template("x", "{{x}}")]),
        ("{{a\nb}}", &[Text("{{a\nb}}")]),
        ("{{\na\n}}", &[Template("a", "{{\na\n}}")]),
        ("{{a\n{{b}}", &[Text("{{a\n"), Template("b", "{{b}}")]),
        ("{{ \n{{ }}", &[Template("{{", "{{ \n{{ }}")]),
        ("}}{{x}}", &[Text("}}"), Template("x", "{{x}}")]),
    ];
    for (text, expected) in cases {
        assert_eq!(segments(text), expected, "{text}");
    }
}

#[test]
fn many_opening_braces_read_a_text_once() {
    let text = "{{a\n".repeat(250_000) + "b}}";
    assert_eq!(segments(&text), [Segment::Text(&text)]);
}

#[test]
fn trim_slots_changes_only_known_templates() {
    assert_eq!(
        trim_placeholders("a {{ env.X }} {{ .Go }} {{ ports.a.1 }}"),
        "a {{env.X}} {{ .Go }} {{ports.a.1}}"
    );
}
