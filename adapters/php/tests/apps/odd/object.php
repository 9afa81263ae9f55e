<?php return new stdClass();
