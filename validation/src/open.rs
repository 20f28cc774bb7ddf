//! Makes machines of either kind.

use crate::cuda::{CudaMachine, Keep};
use crate::fault::Fault;
use crate::host::HostMachine;
use crate::options::Options;
use crate::real::{Kind, RealMachine, Setup};

/// What stays between machines of one command that makes many of them; nothing on the host.
pub struct Kept(#[expect(dead_code, reason = "it is there to be dropped")] Option<Keep>);

impl Kind {
    /// Makes a machine of this kind, with its objects in place, filled.
    pub fn open<'a>(
        self,
        setup: Setup<'a>,
        options: &Options,
    ) -> Result<Box<dyn RealMachine + 'a>, Fault> {
        match self {
            Kind::Host => Ok(Box::new(HostMachine::new(setup, options)?)),
            Kind::Cuda => Ok(Box::new(CudaMachine::new(setup, options)?)),
        }
    }

    /// Keeps what is costly to make of a device, until what is returned goes.
    pub fn keep(self, device: usize) -> Result<Kept, Fault> {
        Ok(Kept(match self {
            Kind::Host => None,
            Kind::Cuda => Some(Keep::new(device)?),
        }))
    }
}
