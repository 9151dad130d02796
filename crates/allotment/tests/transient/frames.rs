//! A frame as a test describes it.

use allotment::device::QueueIndex;
use allotment::transient::{
    TransientDesc, TransientError, TransientPass, TransientPlan, TransientPlanner, TransientResource,
};

/// A pass: its queue, and those that it waits for.
#[derive(Clone, Debug)]
pub(crate) struct Pass {
    pub(crate) queue: u8,
    pub(crate) waits: Vec<usize>,
}

/// A resource: with the passes that use it, and those of the next frame that read it.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) desc: TransientDesc,
    pub(crate) uses: Vec<usize>,
    pub(crate) reads: Vec<usize>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    pub(crate) passes: Vec<Pass>,
    pub(crate) resources: Vec<Resource>,
}

impl Frame {
    /// Describes the frame to a planner, and returns its passes and resources.
    pub(crate) fn describe(
        &self,
        planner: &mut TransientPlanner,
    ) -> Result<(Vec<TransientPass>, Vec<TransientResource>), TransientError> {
        planner.begin();
        let mut passes = Vec::new();
        for pass in &self.passes {
            let waits: Vec<TransientPass> = pass.waits.iter().map(|&at| passes[at]).collect();
            passes.push(planner.pass(QueueIndex(pass.queue), &waits)?);
        }
        let all = |list: &[usize]| list.iter().map(|&at| passes[at]).collect::<Vec<_>>();
        let mut resources = Vec::new();
        for resource in &self.resources {
            let [uses, reads] = [all(&resource.uses), all(&resource.reads)];
            resources.push(match reads.is_empty() {
                true => planner.resource(&resource.desc, &uses)?,
                false => planner.history(&resource.desc, &uses, &reads)?,
            });
        }
        Ok((passes, resources))
    }

    pub(crate) fn plan(
        &self,
        planner: &mut TransientPlanner,
    ) -> Result<(TransientPlan, Vec<TransientPass>, Vec<TransientResource>), TransientError> {
        let (passes, resources) = self.describe(planner)?;
        Ok((planner.plan()?.clone(), passes, resources))
    }
}
