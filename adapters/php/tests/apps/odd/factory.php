<?php return function (array $context) { return "no app"; };
