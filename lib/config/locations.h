// config/locations.h: the folders outside the program in which presets and models are looked for.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

namespace caption::config {

// A value. The program reads the environment once, at its start, and passes the locations on; no
// room reads the environment.
struct Locations {
  std::filesystem::path own_presets = {};  // searched before the installed presets; empty: none
  // Local Hugging Face caches (folders with models--ORGANISATION--NAME), in the order searched.
  std::vector<std::filesystem::path> hub_caches = {};
  // Folder in which digests of weight files are stored between runs; empty: they are not stored.
  std::filesystem::path digests = {};
  // Folder of the price tables (plan/price_table.h) that this user has measured; empty: none.
  std::filesystem::path prices = {};
  // Folder of the rates of this machine that were measured last (config/kept_rates.h); empty: none.
  std::filesystem::path rates = {};
  // Folder for the layers that self-drafts leave out, of models whose own folder cannot be written
  // (config/self_draft.h); empty: none.
  std::filesystem::path self_drafts = {};
  // Folder for files that are removed before the program ends.
  std::filesystem::path temporary = "/var/tmp";
  // Folder of the loaded preset's file, to which its paths are relative; empty before a preset is
  // loaded.
  std::filesystem::path preset_folder = {};
};

// Returns the value of an environment variable, or null when it is not set.
using EnvironmentVariable = std::function<const char*(const char* name)>;

// Own presets are in $CAPTION_PRESETS; hub caches are $HF_HUB_CACHE, $HF_HOME/hub,
// $XDG_CACHE_HOME/huggingface/hub and ~/.cache/huggingface/hub; digests, prices, rates
// and self-drafts are in the folders of these names in $XDG_CACHE_HOME/caption-cli or
// ~/.cache/caption-cli, of which relative ones are left out; temporary files are in $TMPDIR or,
// because they may be large, /var/tmp. Source: huggingface_hub 0.36, "Environment variables"; XDG
// Base Directory 0.8.
Locations find_locations(const EnvironmentVariable& variable);

}  // namespace caption::config
