// Builds dist/ from src/. `npm ci` runs it through `prepare`, so the command line works right after an install.
// With --watch it builds again after every change.
import { execFileSync } from 'node:child_process'
import { chmodSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { build } from 'vite'
import { indentByTabs } from './indent-by-tabs.mjs'
import { keepReachableDeclarations } from './reachable-declarations.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const tsc = fileURLToPath(new URL('bin/tsc', import.meta.resolve('typescript/package.json')))
const compile = (...flags) =>
  execFileSync(process.execPath, [tsc, '-p', 'tsconfig.build.json', ...flags], { cwd: root, stdio: 'inherit' })

// A file removed from src/ must not live on in dist/ and in the published package.
rmSync(`${root}/dist`, { recursive: true, force: true })
try {
  // The comments of declarations are the manual in an editor; those of the code are for people who read src/.
  compile('--emitDeclarationOnly')
  compile('--declaration', 'false', '--isolatedDeclarations', 'false', '--removeComments')
} catch {
  // The compiler has already printed its errors; a stack trace of this script would hide them.
  if (!process.argv.includes('--watch')) process.exit(1)
}
keepReachableDeclarations(`${root}/dist`)
indentByTabs(`${root}/dist`)
// The page of the dashboard comes last: its files are minified, and stay as they are.
await build({ root: `${root}/dashboard`, logLevel: 'warn' })
// npm sets the bit when it links the bin of an installed package, but not for the repository's own.
chmodSync(`${root}/dist/cli/main.js`, 0o755)
if (process.argv.includes('--watch')) compile('--watch', '--preserveWatchOutput')
