'use strict';
// The pinned compiler, kept loaded: starting it anew costs more than compiling one changed contract.
//
//   node compiler.js SOCKET      answers what solc_client.py sends, one request a connection; prints the version once
//                                it listens, and ends with its standard input
const fs = require('fs');
const net = require('net');
const path = require('path');

const modules = process.env.SOLCJS_ROOT || path.join(__dirname, '..', '..', 'node_modules');
const solc = require(path.join(modules, 'solc'));

function readFrom(folder) {
  return (file) => {
    try {
      return { contents: fs.readFileSync(path.resolve(folder, file), 'utf8') };
    } catch (error) {
      return { error: String(error) };
    }
  };
}

function answer(request) {
  const line = request.indexOf(0x0a);
  const folder = request.subarray(0, line).toString();
  return solc.compile(request.subarray(line + 1).toString(), { import: readFrom(folder) });
}

const server = net.createServer({ allowHalfOpen: true }, (connection) => {
  const chunks = [];
  connection.on('data', (chunk) => chunks.push(chunk));
  connection.on('end', () => connection.end(answer(Buffer.concat(chunks))));
  // A client that is gone wants no answer any more.
  connection.on('error', () => connection.destroy());
});
server.listen(process.argv[2], () => process.stdout.write(`${solc.version()}\n`));
process.stdin.on('end', () => process.exit(0)).resume();
