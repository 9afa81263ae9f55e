"""An application that cannot be imported."""

import no_such_module_anywhere

application = no_such_module_anywhere.application
