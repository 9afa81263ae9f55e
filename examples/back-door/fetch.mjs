// fetch, in Node: the address is all that changes.
const search = process.env.KEEPWARM_UPSTREAM_SEARCH ?? 'https://search.internal:9243';

const answer = await fetch(`${search}/documents?q=warm`, { signal: AbortSignal.timeout(10_000) });
console.log(answer.status, await answer.text());
const made = await fetch(`${search}/documents`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ title: 'Warm' }),
    signal: AbortSignal.timeout(10_000),
});
console.log(await made.text());
