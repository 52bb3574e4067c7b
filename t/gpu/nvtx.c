/* SPDX-License-Identifier: Apache-2.0 */
/* What a profiler sees of a run: NVTX loads this library (NVTX_INJECTION64_PATH) as it loads that
 * of Nsight Systems, and it writes each range to the file NVTX_LOG as the thread opens and closes
 * it: "push NAME" and "pop". */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>

static FILE *out;

static int push(const char *name)
{
    fprintf(out, "push %s\n", name);
    return 0;
}

static int pop(void)
{
    fprintf(out, "pop\n");
    return 0;
}

/* NVTX calls it once, before the first range. */
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table);
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table)
{
    const NvtxExportTableCallbacks *callbacks = get_export_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable core;
    unsigned int size;
    const char *path = getenv("NVTX_LOG");

    out = path ? fopen(path, "w") : NULL;
    if (!out || !callbacks ||
        !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &core, &size) ||
        size <= NVTX_CBID_CORE_RangePop)
        return 0;
    *core[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
    *core[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
    return 1;
}
