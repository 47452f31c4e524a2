import { MemoryBackend } from '../../src/limiter/memory/memory.ts'

/** A backend that a test can take away. */
export class UnreliableBackend extends MemoryBackend {
  override readonly isLocal = false as never
  isDown = false

  override define(...args: Parameters<MemoryBackend['define']>): ReturnType<MemoryBackend['define']> {
    return this.isDown ? Promise.reject(new Error('connection refused')) : super.define(...args)
  }

  override acquire(...args: Parameters<MemoryBackend['acquire']>): ReturnType<MemoryBackend['acquire']> {
    return this.isDown ? Promise.reject(new Error('connection refused')) : super.acquire(...args)
  }
}
