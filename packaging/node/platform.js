'use strict';

// Finds the binary in the package for this platform, one of the optional dependencies of package.json.

const { optionalDependencies } = require('./package.json');

function binary() {
  const name = `@keepwarm/${process.platform}-${process.arch}`;
  const version = optionalDependencies[name];
  if (version === undefined) {
    const known = Object.keys(optionalDependencies).join(' and ');
    throw new Error(`no binary for ${process.platform} on ${process.arch}; there are the packages ${known}`);
  }
  let file;
  let found;
  try {
    file = require.resolve(`${name}/bin/keepwarm`);
    found = require(`${name}/package.json`).version;
  } catch {
    throw new Error(
      `package ${name} not found: optional dependencies were left out of the installation, or node_modules comes from another ` +
        `platform; install again on this one without --omit=optional, or run: npm install ${name}@${version}`,
    );
  }
  if (found !== version) {
    throw new Error(`package ${name} has version ${found}, expected ${version}; run: npm install ${name}@${version}`);
  }
  return file;
}

module.exports = { binary };
