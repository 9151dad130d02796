//! What all modes share: the options, and the check of each contender on each workload before it is measured.

use core::time::Duration;
use std::sync::Arc;

use serde::Serialize;

use super::check::{Reject, Verdict, check};
use super::contender::{EMPTY, Ranges, Visit, visit_all};
use super::select::Selection;
use super::workload::{Plan, Scale, Workload, all};
use crate::args::RangesArgs;
use crate::failure::Failure;

/// A check may take so many times as long as the laps: for each operation it searches its own list of ranges.
const CHECK: u32 = 5;

/// The options of a run, and the contenders that it omits.
pub(super) struct Run<'a> {
    pub(super) args: &'a RangesArgs,
    /// All names.
    contenders: Vec<&'static str>,
    workloads: Vec<String>,
    pub(super) omitted: Vec<Omitted>,
}

/// A contender that is not measured in a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Omitted {
    pub(super) workload: String,
    pub(super) contender: &'static str,
    pub(super) reason: String,
}

/// A measurement of each contender that passed its check.
pub(super) trait Measure {
    fn contender<C: Ranges>(&mut self, verdict: &Verdict) -> Result<(), Failure>;
}

impl<'a> Run<'a> {
    pub(super) fn new(args: &'a RangesArgs) -> Result<Self, Failure> {
        let mut names = Names(Vec::new());
        visit_all(&mut names)?;
        if let Some(name) = Selection(&args.contender).unknown(&names.0) {
            return Err(Failure::NoSuch { what: "contender", name: name.to_owned() });
        }
        Ok(Self { args, contenders: names.0, workloads: Vec::new(), omitted: Vec::new() })
    }

    /// Returns the selected workloads. A name may be one of `others` too, which are no sequences.
    pub(super) fn plans(&mut self, others: &[&'static str]) -> Result<Vec<Plan>, Failure> {
        let plans = all();
        self.workloads = plans.iter().map(|plan| plan.name.clone()).collect();
        self.workloads.extend(others.iter().map(|&name| name.to_owned()));
        if let Some(name) = Selection(&self.args.workload).unknown(&self.workloads) {
            return Err(Failure::NoSuch { what: "workload", name: name.to_owned() });
        }
        Ok(plans.into_iter().filter(|plan| self.has_workload(&plan.name)).collect())
    }

    /// Returns `true` if a workload runs.
    pub(super) fn has_workload(&self, name: &str) -> bool {
        Selection(&self.args.workload).has(name, &self.workloads)
    }

    /// Returns what was omitted, each once: modes and numbers of threads repeat the check.
    pub(super) fn into_omitted(self) -> Vec<Omitted> {
        let mut unique: Vec<Omitted> = Vec::new();
        for omitted in self.omitted {
            if !unique.contains(&omitted) {
                unique.push(omitted);
            }
        }
        unique
    }

    pub(super) fn scale(&self) -> Scale {
        if self.args.quick { Scale::Quick } else { Scale::Full }
    }

    /// Returns the time that a contender may spend in a workload.
    pub(super) fn limit(&self) -> Duration {
        Duration::from_secs_f64(self.args.limit)
    }

    /// Returns `true` if a contender runs. The harness alone always does.
    pub(super) fn has(&self, contender: &str) -> bool {
        contender == EMPTY || Selection(&self.args.contender).has(contender, &self.contenders)
    }

    /// Checks each selected contender on a workload, and measures those that pass.
    pub(super) fn each(
        &mut self,
        workload: &Arc<Workload>,
        measure: &mut impl Measure,
    ) -> Result<(), Failure> {
        visit_all(&mut Checked { run: self, workload, measure })
    }
}

struct Names(Vec<&'static str>);

impl Visit for Names {
    fn visit<C: Ranges>(&mut self) -> Result<(), Failure> {
        self.0.push(C::NAME);
        Ok(())
    }
}

struct Checked<'r, 'a, M> {
    run: &'r mut Run<'a>,
    workload: &'r Arc<Workload>,
    measure: &'r mut M,
}

impl<M: Measure> Visit for Checked<'_, '_, M> {
    fn visit<C: Ranges>(&mut self) -> Result<(), Failure> {
        if !self.run.has(C::NAME) {
            return Ok(());
        }
        match verdict::<C>(self.workload, self.run.limit())? {
            Ok(verdict) => self.measure.contender::<C>(&verdict),
            Err(reason) => {
                let workload = self.workload.name.clone();
                self.run.omitted.push(Omitted { workload, contender: C::NAME, reason });
                Ok(())
            }
        }
    }
}

/// Returns the verdict of a contender, or why it is not measured. A contender that returns a wrong range fails the
/// whole run.
pub(super) fn verdict<C: Ranges>(
    workload: &Workload,
    limit: Duration,
) -> Result<Result<Verdict, String>, Failure> {
    // The harness alone does not allocate.
    if C::NAME == EMPTY {
        return Ok(Ok(Verdict::default()));
    }
    if C::IS_LINEAR && !workload.is_ordered {
        return Ok(Err("its frees are in no order".to_owned()));
    }
    let limit = limit * CHECK;
    let Some(mut ranges) = C::new(&workload.space) else {
        return Ok(Err("it cannot manage a space of this size".to_owned()));
    };
    let verdict = match check(&mut ranges, workload, limit) {
        Ok(verdict) => verdict,
        Err(Reject::TooSlow) => {
            return Ok(Err(format!("its check takes more than {} s", limit.as_secs_f64())));
        }
        Err(Reject::Fault(fault)) => {
            let fault = fault.to_string();
            return Err(Failure::Unsound { contender: C::NAME, workload: workload.name.clone(), fault });
        }
    };
    let Verdict { fill_requests, fill_refused, requests, refused, .. } = verdict;
    // With so many requests refused, others would be measured than those of the workload.
    if fill_refused * 10 > fill_requests {
        Ok(Err(format!("it refuses {fill_refused} of {fill_requests} requests of the fill")))
    } else if refused * 10 > requests && !workload.may_refuse {
        Ok(Err(format!("it refuses {refused} of {requests} requests")))
    } else {
        Ok(Ok(verdict))
    }
}
