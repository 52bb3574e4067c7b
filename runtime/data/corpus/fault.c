/* SPDX-License-Identifier: Apache-2.0 */
#include "jsonl.h"

const char *document_fault_text(enum document_fault fault)
{
    static const char *const texts[FAULT_COUNT] = {
        [FAULT_NONE] = "fine",
        [FAULT_JSON] = "not valid JSON",
        [FAULT_UTF8] = "not valid UTF-8",
        [FAULT_SURROGATE] = "unpaired surrogate in a string",
        [FAULT_DEPTH] = "nested too deeply",
        [FAULT_OBJECT] = "not a JSON object",
        [FAULT_KEY] = "a key is missing",
        [FAULT_TYPE] = "value of a key is neither a string nor a list of strings",
        [FAULT_LENGTH] = "longer than the limit",
        [FAULT_IDS] = "not token ids below the vocabulary size, separated by single spaces",
        [FAULT_XML] = "the XML of the page is invalid",
        [FAULT_CUT] = "the page is not closed",
        [FAULT_LOOP] = "the template includes itself",
        [DOCUMENT_REDIRECT] = "redirects",
        [DOCUMENT_NAMESPACE] = "pages in other namespaces",
        [DOCUMENT_MODEL] = "pages that are not wikitext",
        [DOCUMENT_DISAMBIGUATION] = "disambiguation pages",
        [DOCUMENT_SHORT] = "pages with too little text",
        [MARKUP_COMMENT] = "<!-- without -->",
        [MARKUP_TAG] = "a tag without its end tag",
        [MARKUP_TABLE] = "{| without |}",
        [MARKUP_TEMPLATE] = "{{ without }}",
        [MARKUP_LINK] = "[[ without ]]",
    };

    return texts[fault];
}
