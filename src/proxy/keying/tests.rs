use std::borrow::Cow;

use super::*;
use crate::proxy::{KeyParts, PartError, Pattern, Template};

fn form(pattern: &str, template: &str, fold: bool) -> KeyForm {
    let pattern = Pattern::parse(pattern).unwrap();
    let template = match template {
        "" => Template::whole_path(),
        text => Template::parse(text, &pattern).unwrap(),
    };
    KeyForm::new(&pattern, &template, fold)
}

#[test]
fn the_text_of_a_key_is_a_word_over_the_path() {
    for (pattern, template, text) in [
        ("/{*o}", "", "{0..}"),
        ("/{*o}", "{o}", "{0..}"),
        ("/b/{*o}", "", "{0..}"),
        ("/b/{*o}", "{o}", "{1..}"),
        ("/b/{*o}", "b/{o}", "{0..}"),
        ("/b/{*o}", "b:{o}", "b:{1..}"),
        ("/b/{x}/{*o}", "{x}/{o}", "{1..}"),
        ("/{b}/{k}", "{b}/{k}", "{0..}"),
        ("/{b}/{k}", "{k}", "{1..}"),
        ("/{b}/{k}", "{b}", "{0}"),
        ("/{b}/{k}", "{k}/{b}", "{1}/{0}"),
        ("/{b}/{*k}", "{b}", "{0}"),
        ("/b/c", "", "{0..}"),
        ("/b/c", "all", "all"),
        ("/b/c", "xb/c", "x{0..}"),
        ("/{*o}", "{{{o}", "{{{0..}"),
        ("/{*o}", "{host}/{o}", "{host}/{0..}"),
        ("/{*o}", "{query.a}{header.X}", "{query.a}{header.x}"),
    ] {
        assert_eq!(form(pattern, template, false).template(), text, "{pattern} {template}");
    }
    assert_eq!(form("/A/{x}", "B{x}", true).pattern(), "~/a/{}");
    assert_eq!(form("/A/{x}", "B{x}", true).template(), "b{1..}{fold}");
}

/// R11: which pairs are accepted, because each path that matches both gets one key; and which are
/// refused, because one gets two, or because it is not proven.
#[test]
fn one_path_one_key() {
    for (one, two, agree) in [
        // No path matches both.
        (("/a/{*o}", ""), ("/b/{*o}", "{o}"), true),
        (("/{x}", "{x}"), ("/{x}/{y}", "{y}"), true),
        // Both the whole path, however written.
        (("/{*o}", ""), ("/b/{*o}", ""), true),
        (("/{*o}", "{o}"), ("/b/{k}", ""), true),
        (("/{*o}", ""), ("/b/{k}", "b/{k}"), true),
        (("/{*o}", ""), ("/{b}/{k}", "{b}/{k}"), true),
        (("/{b}/{*k}", "{b}/{k}"), ("/{*o}", "{o}"), true),
        // The same part of the path.
        (("/b/{*o}", "{o}"), ("/b/{k}", "{k}"), true),
        (("/b/{*o}", "{o}"), ("/b/{x}/{*y}", "{x}/{y}"), true),
        (("/{b}/{*o}", "{b}"), ("/{b}/{k}", "{b}"), true),
        (("/{b}/{*o}", "{b}"), ("/x/{k}", "x"), true),
        (("/{b}/{*o}", "{b}:{o}"), ("/x/{k}", "x:{k}"), true),
        (("/{b}/{k}", "{k}-{k}"), ("/{b}/{*r}", "{r}-{r}"), true),
        (("/locks/{n}", "{n}"), ("/locks/leader", "leader"), true),
        (("/{*o}", "all"), ("/b/{*o}", "all"), true),
        (("/{*o}", "{host}{o}"), ("/b/{*k}", "{host}b/{k}"), true),
        // The same text, another part of the path.
        (("/a/{x}/{*r}", "{r}"), ("/{x}/{y}/{z}/{*r}", "{r}"), false),
        (("/a/{x}", "{x}"), ("/{x}/{y}", "{x}"), false),
        // Another key for the same path.
        (("/{*o}", ""), ("/b/{*o}", "{o}"), false),
        (("/{*o}", ""), ("/b/{k}", "{k}"), false),
        (("/{b}/{*o}", "{b}"), ("/{b}/{*o}", ""), false),
        (("/{b}/{*o}", "{b}"), ("/x/{k}", "y"), false),
        (("/{b}/{k}", "{b}{k}"), ("/{b}/{k}", "{b}/{k}"), false),
        (("/{*o}", "{host}/{o}"), ("/{*o}", ""), false),
        (("/{*o}", "{query.a}"), ("/{*o}", "{query.b}"), false),
        (("/{*o}", "all"), ("/b/{*o}", ""), false),
        // Case tells paths apart here.
        (("/A/{x}", "{x}"), ("/a/{x}", ""), true),
    ] {
        let (first, second) = (form(one.0, one.1, false), form(two.0, two.1, false));
        assert_eq!(first.agrees(&second), agree, "{one:?} {two:?}");
        assert_eq!(second.agrees(&first), agree, "{two:?} {one:?}");
        let texts = [&first, &second].map(|form| (form.pattern(), form.template()));
        let conflict =
            |a: &(String, String), b: &(String, String)| keys_conflict((&a.0, &a.1), (&b.0, &b.1));
        assert_eq!(conflict(&texts[0], &texts[1]), !agree, "{one:?} {two:?} as text");
    }
}

#[test]
fn folding_makes_one_object_of_two_spellings() {
    let folded = |pattern, template| form(pattern, template, true);
    assert!(!folded("/A/{x}", "{x}").agrees(&folded("/a/{x}", "")), "/A/x and /a/x are one object");
    assert!(folded("/A/{x}", "").agrees(&folded("/a/{x}", "")));
    assert!(folded("/{*o}", "").agrees(&folded("/B/{*o}", "B/{o}")));
    let plain = form("/{*o}", "", false);
    assert!(!plain.agrees(&folded("/{*o}", "")), "turning fold_case on changes keys");
    assert!(!form("/A/{x}", "", false).agrees(&folded("/a/{x}", "")), "also of a literal's case");
}

#[test]
fn a_form_survives_its_text() {
    for (pattern, template, fold) in [
        ("/{*o}", "", false),
        ("/{*o}", "", true),
        ("/a/{x}/{*o}", "{{{x}}}-{o}-{host}-{query.Q}-{header.H}", false),
        ("/a/{x}/b", "~{x}", false),
        ("/a/{x}/b", "{{fold}}", false),
    ] {
        let form = form(pattern, template, fold);
        let read = KeyForm::read(&form.pattern(), &form.template());
        assert_eq!(read.as_ref(), Some(&form), "{pattern} {template}");
    }
}

#[test]
fn texts_that_cannot_be_read_conflict_unless_they_are_the_same() {
    let good = ("/a", "{0..}");
    for bad in
        [("a", "{0..}"), ("/a", "{x}"), ("/a", "{0"), ("~/a", "{0..}"), ("/a", "{0..}{fold}")]
    {
        assert!(keys_conflict(bad, good) && keys_conflict(good, bad), "{bad:?}");
        assert!(!keys_conflict(bad, bad), "{bad:?}");
    }
}

/// The judge: keys really made, for every path of up to three segments over two letters.
#[test]
fn what_agrees_makes_one_key() {
    let paths = paths();
    let routes = routes();
    let mut compared = 0;
    for one in &routes {
        for two in &routes {
            let forms = [one, two].map(|(pattern, key)| KeyForm::new(pattern, key, false));
            let same_text = forms[0].template() == forms[1].template();
            assert!(!same_text || forms[0].agrees(&forms[1]), "{one:?} {two:?}");
            if !forms[0].agrees(&forms[1]) {
                continue;
            }
            for path in &paths {
                if let (Some(first), Some(second)) = (key(one, path), key(two, path)) {
                    assert_eq!(first, second, "{path} {one:?} {two:?}");
                    compared += usize::from(one != two);
                }
            }
        }
    }
    assert!(compared > 100, "only {compared} keys were compared");
}

fn paths() -> Vec<String> {
    let letters = ["a", "b"];
    let mut paths: Vec<String> = vec!["/".to_owned()];
    for one in letters {
        paths.extend([format!("/{one}"), format!("/{one}/")]);
        for two in letters {
            paths.extend([format!("/{one}/{two}"), format!("/{one}/{two}/")]);
            paths.extend(letters.map(|three| format!("/{one}/{two}/{three}")));
        }
    }
    paths
}

/// Every template that every pattern takes.
fn routes() -> Vec<(Pattern, Template)> {
    let templates = "{x} {y} {r} {x}/{y} {x}/{r} {y}/{x} {x}{y} {y}/{r} a a/{x} a/{r} {x}/{y}/{r} a/{x}/{r} a/b \
         {x}/a {x}:{y} {x}/a/{r}";
    let patterns = "/{*r} /a/{*r} /{x}/{*r} /{x} /a /a/{x} /{x}/a /{x}/{y} /a/b /a/{x}/{*r} \
                    /{x}/{y}/{*r} /{x}/a/{*r} /{x}/{y}/a";
    let mut routes = Vec::new();
    for pattern in patterns.split(' ').map(|text| Pattern::parse(text).unwrap()) {
        let written = templates.split(' ').filter_map(|text| Template::parse(text, &pattern).ok());
        let all: Vec<Template> = written.chain([Template::whole_path()]).collect();
        routes.extend(all.into_iter().map(|template| (pattern.clone(), template)));
    }
    routes
}

fn key((pattern, template): &(Pattern, Template), path: &str) -> Option<Vec<u8>> {
    let captures = pattern.matches(path.as_bytes())?;
    let key = template.render(&captures, path.as_bytes(), &PathOnly);
    Some(key.map(Into::into).unwrap_or_default())
}

/// A request of which only the path is asked.
struct PathOnly;

impl KeyParts for PathOnly {
    fn host(&self) -> Result<Cow<'_, [u8]>, PartError> {
        Err(PartError::Missing)
    }

    fn query(&self, _: &str) -> Result<Cow<'_, [u8]>, PartError> {
        Err(PartError::Missing)
    }

    fn header(&self, _: &http::HeaderName) -> Result<Cow<'_, [u8]>, PartError> {
        Err(PartError::Missing)
    }
}
