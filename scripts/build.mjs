// Builds dist/ from src/. `npm ci` runs it through `prepare`, so the command line works right after an install.
import { execFileSync } from 'node:child_process'
import { chmodSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const tsc = fileURLToPath(new URL('bin/tsc', import.meta.resolve('typescript/package.json')))

// A file removed from src/ must not live on in dist/ and in the published package.
rmSync(`${root}/dist`, { recursive: true, force: true })
try {
  execFileSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' })
} catch {
  // The compiler has already said what is wrong; a stack trace of this script would only hide it.
  process.exit(1)
}
// npm sets the bit when it links the bin of an installed package, but not for the repository's own.
chmodSync(`${root}/dist/cli/main.js`, 0o755)
