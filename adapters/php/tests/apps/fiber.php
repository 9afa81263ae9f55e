<?php

return function () { $fiber = new Fiber(fn () => Fiber::suspend('from a fiber')); return $fiber->start(); };
