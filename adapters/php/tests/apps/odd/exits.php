<?php echo "goodbye"; exit(0);
