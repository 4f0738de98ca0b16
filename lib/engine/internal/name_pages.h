// engine/internal/name_pages.h: the content hashes by which the prefix cache finds a prompt's
// pages.
#pragma once

#include "backend/stream.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "scheduler/scheduler.h"

namespace caption::engine {

// Sets the page keys of `spec`, and the position where the vision tokens end: prompts on the same
// video differ after that. `root` identifies everything besides tokens and pixels that decides the
// bits of the request's pages. Hashes the vision tokens, on `stream`, if the request does not name
// their content.
void name_pages(Stream& stream, const Hash128& root, const Request& request,
                scheduler::SequenceSpec& spec);

}  // namespace caption::engine
