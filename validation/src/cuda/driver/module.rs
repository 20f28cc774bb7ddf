//! Modules of kernels.
//!
//! Invariant: a kernel's handle is used only while its module is loaded, which its owner sees to.

use super::*;

/// Kernels, compiled by the driver for its device.
pub(crate) struct Module {
    device: Arc<Device>,
    module: sys::CUmodule,
}

/// A kernel of a module; the module's owner keeps both.
#[derive(Clone, Copy)]
pub(crate) struct Function(pub(super) sys::CUfunction);

impl Module {
    /// Compiles PTX.
    pub(crate) fn load(device: &Arc<Device>, ptx: &str) -> Result<Module> {
        let text = CString::new(ptx).map_err(|_| Fault::Died("PTX holds a zero".to_owned()))?;
        let mut module = null_mut();
        call!(device.calls, cuModuleLoadData(&mut module, text.as_ptr().cast()))?;
        Ok(Module { device: device.clone(), module })
    }

    /// A kernel by its name.
    pub(crate) fn function(&self, name: &CStr) -> Result<Function> {
        let mut function = null_mut();
        call!(self.device.calls, cuModuleGetFunction(&mut function, self.module, name.as_ptr()))?;
        Ok(Function(function))
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let _ = call!(self.device.calls, cuModuleUnload(self.module));
    }
}
