//! The text of a compose file.

use super::Plan;

pub(super) fn text(plan: &Plan<'_>, containerfile: &str) -> String {
    format!(
        "# Written by `keepwarm init`.\n\
         services:\n  \
           {name}:\n    \
             build:\n      \
               context: .\n      \
               dockerfile: {containerfile}\n      \
               additional_contexts:\n        \
                 # The directory of the program `keepwarm`.\n        \
                 keepwarm: {keepwarm}\n    \
             ports:\n      \
               - \"8080:8080\"\n    \
             # Above shutdown_grace: requests end before the container does.\n    \
             stop_grace_period: 30s\n    \
             restart: unless-stopped\n",
        name = plan.app,
        keepwarm = super::container::yaml_string(&super::container::program_directory()),
    )
}
