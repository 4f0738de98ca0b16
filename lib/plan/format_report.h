// plan/format_report.h: the formats in which a model's weights could be held on one machine, side
// by side: bytes, predicted speed, measured loss, the Pareto front of the three, and a choice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/format_choice.h"
#include "plan/plan.h"
#include "plan/price_table.h"

namespace caption::plan {

struct FormatRow {
  FormatCost cost;
  Plan plan;                              // plan of a run whose weights are held so
  std::optional<FormatPrice> price = {};  // not set if not measured
  bool is_on_front = false;
  // For a checkpoint that is yet to be made: how, as PriceTable::made_as; otherwise empty.
  std::string made_as = {};
};

struct FormatReport {
  std::vector<FormatRow> rows;
  FormatChoice choice;  // index of a row
  std::optional<FoundPriceTable> prices = {};
  std::int64_t made_positions = 0;  // the fewest of the tables of checkpoints that were made
  std::string model_flags;          // "--model X" or "--preset X", for the advice to measure

  // Formats that have no row, with the reason: "nf4: this build does not hold nf4, ...".
  std::vector<std::string> left_out = {};

  bool has_made_rows() const;
  const FormatRow* chosen() const { return choice.index ? &rows[*choice.index] : nullptr; }
  // The row that is chosen or, if none is, that of the least memory of those that do not fit and
  // need not be made.
  const FormatRow& planned() const;
};

// Bytes of everything that a run holds while `num_concurrent` videos, or as many as are asked for
// if none fits, are in their last steps. The KV pages of a pool beyond these are not counted.
std::int64_t bytes_in_use(const Plan& plan);

// Makes the row of a format from its plan and its measured price. `name` is as --dtype takes it.
FormatRow make_format_row(std::string name, Plan plan, std::optional<FormatPrice> price);
// The name of a checkpoint that is yet to be made: "gptq (calibrated)" for "gptq --calibrate", "nf4
// (made)" for "nf4".
std::string made_name(std::string_view made_as);
// Makes the row of such a checkpoint.
FormatRow make_made_row(std::string made_as, Plan plan, std::optional<FormatPrice> price);

// Determines front and choice from the rows, one or more. If nothing fits, the reason ends with the
// limit of the smallest one.
FormatReport make_format_report(std::vector<FormatRow> rows, std::optional<FoundPriceTable> prices,
                                std::string model_flags);

// ", of those to be made 1005 or more": the positions of the prices of checkpoints that are yet to
// be made; empty where they have none.
std::string made_positions_text(const FormatReport& report);

// "run `caption-cli bench VIDEOS --price weights --model X`"
std::string advise_to_measure(const FormatReport& report);

// The report has one row or more.
std::string to_text(const FormatReport& report);
std::string to_json(const FormatReport& report);  // one JSON object on one line

}  // namespace caption::plan
