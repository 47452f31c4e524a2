// Writes the .lua files of the limiter on Redis into one module, so that the package ships no Lua files. Run it after
// every change of one; test/limiter/redis-scripts.test.ts fails until then.
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'

const folder = fileURLToPath(new URL('../src/limiter/redis/lua/', import.meta.url))

const SCRIPTS = {
  ACQUIRE: ['rules.lua', 'acquire.lua'],
  READ: ['read.lua'],
  SWAP: ['swap.lua'],
  CHANGE: ['change.lua'],
  PERMITS: ['permits.lua'],
}

/** The text that is run: without comments, indents and empty lines. */
function textOf(file) {
  const lines = readFileSync(folder + file, 'utf8').split('\n')
  return lines.map((line) => line.trim()).filter((line) => line !== '' && !line.startsWith('--'))
}

/** The module. */
export function embedded() {
  const parts = Object.entries(SCRIPTS).map(
    ([name, files]) =>
      `/** The script of ${files.join(' and ')}. */\nexport const ${name}: string = ${JSON.stringify(files.flatMap(textOf).join('\n'))}\n`,
  )
  return `// Written by scripts/embed-lua.mjs from the .lua files beside it; change those.\n\n${parts.join('\n')}`
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) writeFileSync(`${folder}embedded.ts`, embedded())
