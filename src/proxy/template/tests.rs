use std::collections::HashMap;

use super::*;

/// A request whose parts are given; a name with two values is doubled.
struct Parts(HashMap<&'static str, Vec<&'static str>>);

impl Parts {
    fn part(&self, name: &str) -> Result<Cow<'_, [u8]>, PartError> {
        match self.0.get(name).map(Vec::as_slice) {
            None => Err(PartError::Missing),
            Some([one]) => Ok(one.as_bytes().into()),
            Some(_) => Err(PartError::Doubled),
        }
    }
}

impl KeyParts for Parts {
    fn host(&self) -> Result<Cow<'_, [u8]>, PartError> {
        self.part("host")
    }

    fn query(&self, name: &str) -> Result<Cow<'_, [u8]>, PartError> {
        self.part(&format!("query.{name}"))
    }

    fn header(&self, name: &HeaderName) -> Result<Cow<'_, [u8]>, PartError> {
        self.part(&format!("header.{name}"))
    }
}

fn render(pattern: &str, template: Option<&str>, path: &str) -> Result<String, String> {
    let pattern = Pattern::parse(pattern).unwrap();
    let template =
        template.map_or_else(Template::whole_path, |text| Template::parse(text, &pattern).unwrap());
    let captures = pattern.matches(path.as_bytes()).unwrap();
    let parts = Parts(HashMap::from([
        ("host", vec!["example.com"]),
        ("query.v", vec!["a/b"]),
        ("query.two", vec!["1", "2"]),
        ("header.x-tenant", vec!["acme"]),
    ]));
    let key = template.render(&captures, path.as_bytes(), &parts);
    key.map(|key| String::from_utf8(key.into()).unwrap()).map_err(|error| error.to_string())
}

#[test]
fn a_key_is_joined_as_the_template_says() {
    for (pattern, template, path, key) in [
        ("/{*o}", None, "/a/b", "a/b"),
        ("/a/{x}", None, "/a/b", "a/b"),
        ("/{*o}", Some("{o}"), "/a/b", "a/b"),
        ("/{b}/{*o}", Some("{b}"), "/one/two/three", "one"),
        ("/{b}/{*o}", Some("{o}:{b}"), "/one/two/three", "two/three:one"),
        ("/{b}/{c}", Some("{b}{c}"), "/x/y", "xy"),
        ("/{*o}", Some("all"), "/a", "all"),
        ("/{*o}", Some("{{{o}}}"), "/a", "{a}"),
        ("/{*o}", Some("{host}/{o}"), "/a", "example.com/a"),
        ("/{*o}", Some("{o}?{query.v}"), "/a", "a?a/b"),
        ("/{*o}", Some("{header.X-Tenant}/{o}"), "/a", "acme/a"),
    ] {
        assert_eq!(render(pattern, template, path).as_deref(), Ok(key), "{pattern} {template:?}");
    }
}

#[test]
fn a_part_that_is_not_there_once_is_no_key() {
    for (template, path, why) in [
        (Some("{query.gone}"), "/a", "query.gone is missing, and the fence key is made of it"),
        (
            Some("{query.two}"),
            "/a",
            "query.two stands more than once, and the fence key is made of it",
        ),
        (
            Some("{header.x-gone}"),
            "/a",
            "header.x-gone is missing, and the fence key is made of it",
        ),
        (Some("{o}"), "/", "the fence key would be empty"),
        (None, "/", "the fence key would be empty"),
    ] {
        assert_eq!(render("/{*o}", template, path), Err(why.to_owned()), "{template:?}");
    }
}

#[test]
fn what_is_no_template_says_why() {
    let unknown = "is neither a name in the path nor host, query.NAME or header.NAME; the path has";
    let not_a_key = "cannot be part of a key; it is no field that tells objects apart";
    for (text, why) in [
        ("", "it is empty; leave it out for the whole path".to_owned()),
        ("{o", "a \"{\" is not closed; write \"{{\" for the brace itself".to_owned()),
        ("o}", "a \"}\" was not opened; write \"}}\" for the brace itself".to_owned()),
        ("{o} ", "it has a character that is not visible ASCII".to_owned()),
        ("\u{e9}", "it has a character that is not visible ASCII".to_owned()),
        ("{x}", format!("{{x}} {unknown} {{b}}, {{o}}")),
        ("{}", format!("{{}} {unknown} {{b}}, {{o}}")),
        ("{*o}", format!("{{*o}} {unknown} {{b}}, {{o}}")),
        ("{query.}", format!("{{query.}} {unknown} {{b}}, {{o}}")),
        ("{query.a&b}", format!("{{query.a&b}} {unknown} {{b}}, {{o}}")),
        ("{header.}", format!("{{header.}} {not_a_key}")),
        ("{header.a b}", format!("{{header.a b}} {not_a_key}")),
        ("{header.X-Forwarded-Host}", format!("{{header.X-Forwarded-Host}} {not_a_key}")),
        ("{header.Via}", format!("{{header.Via}} {not_a_key}")),
        ("{header.X-Request-Id}", format!("{{header.X-Request-Id}} {not_a_key}")),
        ("{header.Keep-Alive}", format!("{{header.Keep-Alive}} {not_a_key}")),
        ("{header.Fencing-Token}", format!("{{header.Fencing-Token}} {not_a_key}")),
        ("{header.connection}", format!("{{header.connection}} {not_a_key}")),
    ] {
        let pattern = Pattern::parse("/{b}/{*o}").unwrap();
        assert_eq!(Template::parse(text, &pattern).unwrap_err().to_string(), why, "{text:?}");
    }
    let many = "{b}x".repeat(MAX_FIELDS);
    let pattern = Pattern::parse("/{b}").unwrap();
    assert_eq!(Template::parse(&many, &pattern), Err(TemplateError::TooLong));
}

#[test]
fn a_template_names_what_its_keys_are_split_by() {
    let pattern = Pattern::parse("/{*o}").unwrap();
    let template = Template::parse("{host}-{o}-{query.V}-{header.X-A}", &pattern).unwrap();
    let parts: Vec<String> = template.splits_by().collect();
    assert_eq!(parts, ["host", "query.V", "header.x-a"]);
    assert_eq!(Template::whole_path().splits_by().count(), 0);
}
