// engine/internal/step_graphs.h: the graphs of decode steps (backend/graph.h), one per shape.
//
// Steps whose launches depend on their shape alone are padded to one of a few shapes. The first
// step of a shape is launched kernel by kernel, which loads the kernels and sizes the scratch
// memory; neither may happen while work is recorded. The second records a graph, and launches it as
// all later ones do.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "backend/graph.h"
#include "backend/stream.h"

namespace caption::engine {

// What decides the launches of a step in which every row has logits and no row is a vision token,
// watched, or changed by a chosen adapter.
struct StepShape {
  std::int64_t rows = 0;             // tokens
  std::int64_t table_pages = 0;      // width of the block tables
  bool chooses_tokens = false;       // whether the device chooses the tokens
  std::int64_t beam_candidates = 0;  // candidates of each row; 0: the step has no beams
  // Some layers are not computed, always the same ones.
  bool leaves_out_layers = false;

  bool operator==(const StepShape&) const = default;
};

class StepGraphs {
 public:
  // The most graphs that are kept; the one that was launched longest ago makes room.
  static constexpr std::size_t kMostGraphs = 64;

  // Memory that launches use besides pages, logits and weights, which stay where they are.
  struct Memory {
    const void* arrays = nullptr;            // the step's index arrays
    const void* candidates = nullptr;        // the candidates of beams
    const void* stream_scratch = nullptr;    // Stream::scratch()
    std::int64_t decoder_scratch_bytes = 0;  // Decoder::scratch_bytes()

    bool operator==(const Memory&) const = default;
  };

  // No shape has more rows or pages than these.
  StepGraphs(std::int64_t most_rows, std::int64_t most_table_pages);

  // The shape that a step with such rows and tables is padded to: 1, 2, 4, 8 or a multiple of 16
  // rows; tables of a multiple of 16 pages, from 128 pages on of an eighth to a quarter of the
  // width.
  StepShape padded(const StepShape& step) const;
  // Gives the stream the work of a step of a padded shape, which `launch` would give it. Graphs
  // that were recorded with other memory are forgotten. Where the device refuses a graph, which is
  // logged once, steps of the shape are launched kernel by kernel. Throws what `launch` throws.
  void run(Stream& stream, const StepShape& shape, const Memory& memory,
           const std::function<void()>& launch);

  std::int64_t num_graph_launches() const { return num_launches_; }

 private:
  struct Entry {
    StepShape shape;
    std::optional<Graph> graph;
    bool is_refused = false;
    std::int64_t last_step = 0;
  };

  // The entry of the shape; null when it occurs for the first time.
  Entry* find(const StepShape& shape);
  void add(const StepShape& shape);
  void record(Stream& stream, Entry& entry, const std::function<void()>& launch);

  std::int64_t most_rows_;
  std::int64_t most_table_pages_;
  std::vector<Entry> entries_;  // one for each shape that occurred
  Memory memory_;
  std::int64_t num_steps_ = 0;
  std::int64_t num_launches_ = 0;
  bool has_logged_ = false;
};

}  // namespace caption::engine
