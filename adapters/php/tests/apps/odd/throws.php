<?php throw new RuntimeException("cannot start");
