<?php

return ['paths' => [__DIR__ . '/../views'], 'compiled' => getenv('TEST_STORAGE') . '/framework/views'];
