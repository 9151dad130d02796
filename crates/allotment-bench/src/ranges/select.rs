//! Which workloads and contenders run.

/// Names that were asked for; none stands for all.
#[derive(Debug)]
pub(super) struct Selection<'a>(pub(super) &'a [String]);

impl Selection<'_> {
    /// Returns `true` if `name` is one of the names, or begins with one that is no whole name among `all`.
    pub(super) fn has(&self, name: &str, all: &[impl AsRef<str>]) -> bool {
        self.0.is_empty()
            || self.0.iter().any(|wanted| match all.iter().any(|whole| whole.as_ref() == wanted) {
                true => wanted == name,
                false => name.starts_with(wanted.as_str()),
            })
    }

    /// Returns the first of the names that selects none of `all`.
    pub(super) fn unknown(&self, all: &[impl AsRef<str>]) -> Option<&str> {
        self.0
            .iter()
            .map(String::as_str)
            .find(|wanted| !all.iter().any(|name| name.as_ref().starts_with(wanted)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_name_selects_itself_and_a_part_all_that_begin_with_it() {
        let all = ["tlsf", "tlsf-fast", "linear"];
        let selected = |wanted: &[&str]| {
            let wanted: Vec<_> = wanted.iter().map(|&name| name.to_owned()).collect();
            let selection = Selection(&wanted);
            assert_eq!(selection.unknown(&all), None);
            all.into_iter().filter(|name| selection.has(name, &all)).collect::<Vec<_>>()
        };
        assert_eq!(selected(&[]), all);
        assert_eq!(selected(&["tlsf"]), ["tlsf"]);
        assert_eq!(selected(&["tls"]), ["tlsf", "tlsf-fast"]);
        assert_eq!(selected(&["tlsf", "lin"]), ["tlsf", "linear"]);
        assert_eq!(Selection(&["buddy".to_owned()]).unknown(&all), Some("buddy"));
    }
}
