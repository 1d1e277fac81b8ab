//! Two routes (a pattern and a template each, in four lines) and paths, one a line: what matches,
//! what is captured, and R11: routes that are said to agree make one key of a path.

use std::borrow::Cow;

use palisade::proxy::{KeyForm, KeyParts, PartError, Pattern, Template, overlaps_text};

use super::{lines, shown};

pub fn run(data: &[u8]) {
    let all: Vec<&[u8]> = lines(data, 16).collect();
    let routes: Vec<Route> = all.chunks(2).take(2).filter_map(Route::of).collect();
    let paths = all.iter().skip(4).filter(|path| path.starts_with(b"/"));
    let paths: Vec<&[u8]> = paths.copied().filter(|path| is_checked(path)).collect();
    for route in &routes {
        route.can_be_read_back();
        for path in &paths {
            route.matches_as_it_is_written(path);
        }
    }
    for one in &routes {
        for two in &routes {
            agree_on_every_path(one, two, false, &paths);
            agree_on_every_path(one, two, true, &paths);
        }
    }
}

/// What `Target` lets through: no empty segment but the last.
fn is_checked(path: &[u8]) -> bool {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    path.split(|byte| *byte == b'/').skip(1).all(|segment| !segment.is_empty())
}

struct Route {
    pattern: Pattern,
    template: Template,
}

impl Route {
    fn of(two: &[&[u8]]) -> Option<Self> {
        let text = |at: usize| std::str::from_utf8(two.get(at)?).ok();
        let pattern = Pattern::parse(text(0)?).ok()?;
        let template = match text(1)? {
            "" => Template::whole_path(),
            text => Template::parse(text, &pattern).ok()?,
        };
        Some(Self { pattern, template })
    }

    fn matches(&self, path: &[u8]) -> bool {
        self.pattern.matches(path).is_some()
    }

    fn key(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.template.render(&self.pattern.matches(path)?, path, &Parts).ok().map(Into::into)
    }

    fn can_be_read_back(&self) {
        for fold in [false, true] {
            let form = KeyForm::new(&self.pattern, &self.template, fold);
            let (pattern, template) = (form.pattern(), form.template());
            let read = KeyForm::read(&pattern, &template);
            assert_eq!(read.as_ref(), Some(&form), "{pattern} {template}");
            assert!(form.agrees(&form), "{pattern} {template} with itself");
            assert!(overlaps_text(&pattern, &pattern), "{pattern} with itself");
        }
    }

    /// By the words of the documentation: segment by segment.
    fn matches_as_it_is_written(&self, path: &[u8]) {
        let wanted: Vec<&str> = self.pattern.as_str().split('/').skip(1).collect();
        let mut segments = path.split(|byte| *byte == b'/').skip(1);
        let mut captured: Vec<Vec<u8>> = Vec::new();
        let mut fits = true;
        for want in wanted {
            if want.starts_with("{*") {
                let rest: Vec<&[u8]> = segments.by_ref().collect();
                fits &= !rest.is_empty();
                captured.push(rest.join(&b'/'));
                continue;
            }
            let segment = segments.next();
            if want.starts_with('{') {
                fits &= segment.is_some_and(|segment| !segment.is_empty());
                captured.push(segment.unwrap_or_default().to_vec());
            } else {
                fits &= segment == Some(want.as_bytes());
            }
        }
        fits &= segments.next().is_none();
        let told = format!("{} of {}", self.pattern.as_str(), shown(path));
        let found = self.pattern.matches(path);
        assert_eq!(found.is_some(), fits, "{told}");
        let Some(found) = found else { return };
        for (at, wanted) in captured.iter().enumerate() {
            assert_eq!(found.of(at, path), Some(&wanted[..]), "{told}");
        }
        assert_eq!(found.of(captured.len(), path), None, "{told}");
    }
}

/// A path in two spellings is one object where the store folds case; routes never do.
fn agree_on_every_path(one: &Route, two: &Route, fold: bool, paths: &[&[u8]]) {
    let form = |route: &Route| KeyForm::new(&route.pattern, &route.template, fold);
    let forms = [form(one), form(two)];
    let told = format!("{forms:?}");
    let overlap = forms[0].overlaps(&forms[1]);
    assert_eq!(overlap, forms[1].overlaps(&forms[0]), "{told}");
    assert_eq!(overlap, overlaps_text(&forms[0].pattern(), &forms[1].pattern()), "{told}");
    let agree = forms[0].agrees(&forms[1]);
    assert_eq!(agree, forms[1].agrees(&forms[0]), "{told}");
    for first in paths {
        for second in paths {
            let one_object =
                if fold { first.eq_ignore_ascii_case(second) } else { first == second };
            if !one_object || !one.matches(first) || !two.matches(second) {
                continue;
            }
            let both = format!("{} and {}: {told}", shown(first), shown(second));
            assert!(overlap, "{both}");
            if agree && let (Some(first), Some(second)) = (one.key(first), two.key(second)) {
                let same = if fold { first.eq_ignore_ascii_case(&second) } else { first == second };
                assert!(same, "{} and {}: {both}", shown(&first), shown(&second));
            }
        }
    }
}

/// Parts that are there: each says its own name.
struct Parts;

impl KeyParts for Parts {
    fn host(&self) -> Result<Cow<'_, [u8]>, PartError> {
        Ok(b"host.example"[..].into())
    }

    fn query(&self, name: &str) -> Result<Cow<'_, [u8]>, PartError> {
        Ok(format!("query-{name}").into_bytes().into())
    }

    fn header(&self, name: &http::HeaderName) -> Result<Cow<'_, [u8]>, PartError> {
        Ok(format!("header-{name}").into_bytes().into())
    }
}
