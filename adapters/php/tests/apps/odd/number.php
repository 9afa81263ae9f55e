<?php return 42;
