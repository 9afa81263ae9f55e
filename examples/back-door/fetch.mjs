// fetch in Node: only the address changes.
const search = process.env.KEEPWARM_UPSTREAM_SEARCH ?? 'https://search.internal:9243';

const response = await fetch(`${search}/documents?q=warm`, { signal: AbortSignal.timeout(10_000) });
console.log(response.status, await response.text());
const made = await fetch(`${search}/documents`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ title: 'Warm' }),
    signal: AbortSignal.timeout(10_000),
});
console.log(await made.text());
