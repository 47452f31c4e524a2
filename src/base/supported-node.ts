import { SluiceError } from './errors.ts'

const NEEDED: readonly [major: number, minor: number] = [22, 16]

/** Whether a version of Node, such as '22.16.0', has all that Sluice needs. */
export function isSupportedNode(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major > NEEDED[0] || (major === NEEDED[0] && minor >= NEEDED[1])
}

// Every door imports this module first, so an older Node says what it lacks before any other module can fail on it.
if (!isSupportedNode(process.versions.node)) refuse(process.versions.node)

function refuse(version: string): never {
  const error = new SluiceError(
    'node.unsupported',
    `Sluice needs Node ${NEEDED.join('.')} or newer; this is Node ${version}.`,
  )
  // Node would print a stack around the one line that matters. An error that the caller catches stays the caller's.
  const say = (thrown: unknown): void => {
    if (thrown !== error) throw thrown
    process.stderr.write(`${error.message}\n`)
    process.exit(1)
  }
  if (process.listenerCount('uncaughtException') === 0) {
    process.once('uncaughtException', say)
    setImmediate(() => process.off('uncaughtException', say))
  }
  throw error
}
