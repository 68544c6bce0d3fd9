// Reads a JSON array of {"file", "chunkBytes", "maxLinks", "rawLeaves", "version"} from standard input and
// prints the CIDs that ipfs-unixfs-importer gives these files, as a JSON array.
import { readFileSync } from 'node:fs'
import { MemoryBlockstore } from 'blockstore-core'
import { importBytes } from 'ipfs-unixfs-importer'
import { fixedSize } from 'ipfs-unixfs-importer/chunker'
import { balanced } from 'ipfs-unixfs-importer/layout'

const cids = []
for (const job of JSON.parse(readFileSync(0, 'utf8'))) {
  const entry = await importBytes(new Uint8Array(readFileSync(job.file)), new MemoryBlockstore(), {
    chunker: fixedSize({ chunkSize: job.chunkBytes }),
    layout: balanced({ maxChildrenPerNode: job.maxLinks }),
    rawLeaves: job.rawLeaves,
    cidVersion: job.version,
    wrapWithDirectory: false
  })
  cids.push(entry.cid.toString())
}
console.log(JSON.stringify(cids))
