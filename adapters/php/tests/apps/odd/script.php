<?php echo "a script\n";
