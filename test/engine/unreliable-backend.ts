import { MemoryBackend } from '../../src/limiter/memory/memory.ts'

/** A backend that a test can take away. */
export class UnreliableBackend extends MemoryBackend {
  override readonly isLocal = false as never
  isDown = false
  /** It fails calls of more requests. */
  most: number = Infinity

  override define(...args: Parameters<MemoryBackend['define']>): ReturnType<MemoryBackend['define']> {
    return this.isDown ? Promise.reject(new Error('connection refused')) : super.define(...args)
  }

  override acquire(...args: Parameters<MemoryBackend['acquire']>): ReturnType<MemoryBackend['acquire']> {
    if (args[0].length > this.most) return Promise.reject(new Error('no answer in time'))
    return this.isDown ? Promise.reject(new Error('connection refused')) : super.acquire(...args)
  }
}
