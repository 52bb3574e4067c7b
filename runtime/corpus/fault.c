#include "jsonl.h"

const char *document_fault_text(enum document_fault fault)
{
    static const char *const texts[FAULT_COUNT] = {
        [FAULT_NONE] = "fine",
        [FAULT_JSON] = "not valid JSON",
        [FAULT_UTF8] = "not valid UTF-8",
        [FAULT_SURROGATE] = "half of a surrogate pair in a text",
        [FAULT_DEPTH] = "nested too deeply",
        [FAULT_OBJECT] = "not a JSON object",
        [FAULT_KEY] = "a key is missing",
        [FAULT_TYPE] = "neither a string nor a list of strings under a key",
        [FAULT_LENGTH] = "longer than --max-line-bytes",
        [FAULT_IDS] = "not ids below the vocabulary's size with single spaces between them",
        [FAULT_XML] = "the XML of the page is broken",
        [FAULT_CUT] = "the page is not closed",
        [DOCUMENT_REDIRECT] = "redirects",
        [DOCUMENT_NAMESPACE] = "pages of other namespaces",
        [DOCUMENT_MODEL] = "pages that are not wikitext",
        [DOCUMENT_DISAMBIGUATION] = "disambiguation pages",
        [DOCUMENT_SHORT] = "pages without enough text",
    };

    return texts[fault];
}
