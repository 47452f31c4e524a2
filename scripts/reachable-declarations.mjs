import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'

const IMPORTED = /(?:from|import)\s*\(?\s*['"](\.[^'"]+)['"]/g

/** Deletes the declarations in a build that no door of the package reaches: users can see none of them. */
export function keepReachableDeclarations(dist) {
  const reached = new Set()
  const all = readdirSync(dist, { recursive: true }).filter((file) => file.endsWith('.d.ts'))
  const open = all.filter((file) => file.startsWith('exports/')).map((file) => join(dist, file))
  for (let file = open.pop(); file; file = open.pop()) {
    if (reached.has(file)) continue
    reached.add(file)
    for (const [, path] of readFileSync(file, 'utf8').matchAll(IMPORTED))
      open.push(resolve(dirname(file), path.replace(/\.[jt]s$/, '.d.ts')))
  }
  for (const file of all) if (!reached.has(join(dist, file))) rmSync(join(dist, file))
}
