'use strict';

// Replaces bin/keepwarm by a hard link to the binary, so that no Node process stands before it. Where that is not possible,
// bin/keepwarm stays, and starts the binary; it also reports a missing one, so that nothing here fails an installation.

const fs = require('fs');
const path = require('path');
const { binary } = require('./platform.js');

const stub = path.join(__dirname, 'bin', 'keepwarm');
const draft = `${stub}.${process.pid}`;

try {
  const program = binary();
  fs.linkSync(program, draft);
  fs.renameSync(draft, stub); // at once: a stub that is half a binary never exists, and shared copies of it stay as they are
} catch {
  fs.rmSync(draft, { force: true });
}
