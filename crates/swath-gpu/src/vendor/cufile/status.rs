//! The status codes of cuFile.

use crate::error::{Error, Result};
use crate::vendor::Library;

/// `CUfileError_t`: a code of cuFile, and one of the CUDA driver if that was what failed.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Code {
    pub(super) cufile: i32,
    pub(super) cuda: i32,
}

pub(super) const SUCCESS: i32 = 0;
const CUDA_DRIVER_ERROR: i32 = 5011;
pub(super) const ALREADY_OPEN: i32 = 5026;

pub(super) fn failed(call: &'static str, code: String) -> Error {
    Error::Library { library: Library::CuFile, call, code }
}

/// An error of its code, if it is one.
pub(super) fn check(call: &'static str, code: Code) -> Result<()> {
    if code.cufile == SUCCESS { Ok(()) } else { Err(failed(call, describe(code))) }
}

pub(super) fn describe(code: Code) -> String {
    match code {
        Code { cufile: CUDA_DRIVER_ERROR, cuda } => format!("{} and CUDA's code {cuda}", name(CUDA_DRIVER_ERROR)),
        Code { cufile, .. } => name(cufile),
    }
}

/// A code of cuFile by name and number.
pub(super) fn name(code: i32) -> String {
    let name = match code {
        5001 => "CU_FILE_DRIVER_NOT_INITIALIZED",
        5002 => "CU_FILE_DRIVER_INVALID_PROPS",
        5003 => "CU_FILE_DRIVER_UNSUPPORTED_LIMIT",
        5004 => "CU_FILE_DRIVER_VERSION_MISMATCH",
        5005 => "CU_FILE_DRIVER_VERSION_READ_ERROR",
        5006 => "CU_FILE_DRIVER_CLOSING",
        5007 => "CU_FILE_PLATFORM_NOT_SUPPORTED",
        5008 => "CU_FILE_IO_NOT_SUPPORTED",
        5009 => "CU_FILE_DEVICE_NOT_SUPPORTED",
        5010 => "CU_FILE_NVFS_DRIVER_ERROR",
        CUDA_DRIVER_ERROR => "CU_FILE_CUDA_DRIVER_ERROR",
        5012 => "CU_FILE_CUDA_POINTER_INVALID",
        5013 => "CU_FILE_CUDA_MEMORY_TYPE_INVALID",
        5014 => "CU_FILE_CUDA_POINTER_RANGE_ERROR",
        5015 => "CU_FILE_CUDA_CONTEXT_MISMATCH",
        5016 => "CU_FILE_INVALID_MAPPING_SIZE",
        5017 => "CU_FILE_INVALID_MAPPING_RANGE",
        5018 => "CU_FILE_INVALID_FILE_TYPE",
        5019 => "CU_FILE_INVALID_FILE_OPEN_FLAG",
        5020 => "CU_FILE_DIO_NOT_SET",
        5022 => "CU_FILE_INVALID_VALUE",
        5023 => "CU_FILE_MEMORY_ALREADY_REGISTERED",
        5024 => "CU_FILE_MEMORY_NOT_REGISTERED",
        5025 => "CU_FILE_PERMISSION_DENIED",
        ALREADY_OPEN => "CU_FILE_DRIVER_ALREADY_OPEN",
        5027 => "CU_FILE_HANDLE_NOT_REGISTERED",
        5028 => "CU_FILE_HANDLE_ALREADY_REGISTERED",
        5029 => "CU_FILE_DEVICE_NOT_FOUND",
        5030 => "CU_FILE_INTERNAL_ERROR",
        5031 => "CU_FILE_GETNEWFD_FAILED",
        5033 => "CU_FILE_NVFS_SETUP_ERROR",
        5034 => "CU_FILE_IO_DISABLED",
        5035 => "CU_FILE_BATCH_SUBMIT_FAILED",
        5036 => "CU_FILE_GPU_MEMORY_PINNING_FAILED",
        5037 => "CU_FILE_BATCH_FULL",
        5038 => "CU_FILE_ASYNC_NOT_SUPPORTED",
        5039 => "CU_FILE_INTERNAL_BATCH_SETUP_ERROR",
        5040 => "CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR",
        5041 => "CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR",
        5042 => "CU_FILE_INTERNAL_BATCH_CANCEL_ERROR",
        5043 => "CU_FILE_NOMEM_ERROR",
        5044 => "CU_FILE_IO_ERROR",
        5045 => "CU_FILE_INTERNAL_BUF_REGISTER_ERROR",
        5046 => "CU_FILE_HASH_OPR_ERROR",
        5047 => "CU_FILE_INVALID_CONTEXT_ERROR",
        5048 => "CU_FILE_NVFS_INTERNAL_DRIVER_ERROR",
        5049 => "CU_FILE_BATCH_NOCOMPAT_ERROR",
        _ => return format!("code {code}"),
    };
    format!("{name} ({code})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_told_by_name_and_cuda_codes_with_them() {
        assert_eq!(describe(Code { cufile: 5033, cuda: 0 }), "CU_FILE_NVFS_SETUP_ERROR (5033)");
        let cuda = describe(Code { cufile: CUDA_DRIVER_ERROR, cuda: 201 });
        assert_eq!(cuda, "CU_FILE_CUDA_DRIVER_ERROR (5011) and CUDA's code 201");
        assert_eq!(describe(Code { cufile: 7, cuda: 0 }), "code 7");
    }
}
