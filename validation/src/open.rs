//! Makes machines of either kind.

use crate::cuda::{CudaMachine, Keep};
use crate::fault::Result;
use crate::host::HostMachine;
use crate::options::Options;
use crate::real::{Kind, RealMachine, Setup};

impl Kind {
    /// Makes a machine of this kind, with its objects in place, filled.
    pub fn open<'a>(
        self,
        setup: Setup<'a>,
        options: &Options,
    ) -> Result<Box<dyn RealMachine + 'a>> {
        match self {
            Kind::Host => Ok(Box::new(HostMachine::new(setup, options)?)),
            Kind::Cuda => Ok(Box::new(CudaMachine::new(setup, options)?)),
        }
    }

    /// What stays between machines of one command that makes many of them, until it is dropped:
    /// what is costly to make of a device. Nothing on the host.
    pub fn keep(self, device: usize) -> Result<Option<Keep>> {
        (self == Kind::Cuda).then(|| Keep::new(device)).transpose()
    }
}
