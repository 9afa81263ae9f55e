<?php return function (Psr\Http\Missing\Thing $request) { return "x"; };
