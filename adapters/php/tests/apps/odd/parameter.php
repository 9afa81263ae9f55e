<?php return function (PDO $database) { return "x"; };
