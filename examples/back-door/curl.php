<?php

// PHP's curl extension: only the address changes.
$search = getenv('KEEPWARM_UPSTREAM_SEARCH') ?: 'https://search.internal:9243';

$call = curl_init($search . '/documents?q=warm');
curl_setopt_array($call, [CURLOPT_RETURNTRANSFER => true, CURLOPT_TIMEOUT => 10]);
$body = curl_exec($call);
if ($body === false) {
    fwrite(STDERR, curl_error($call) . "\n");
    exit(1);
}
echo curl_getinfo($call, CURLINFO_RESPONSE_CODE), ' ', $body, "\n";

$call = curl_init($search . '/documents');
curl_setopt_array($call, [
    CURLOPT_RETURNTRANSFER => true,
    CURLOPT_TIMEOUT => 10,
    CURLOPT_HTTPHEADER => ['Content-Type: application/json'],
    CURLOPT_POSTFIELDS => json_encode(['title' => 'Warm']),
]);
echo curl_exec($call), "\n";
