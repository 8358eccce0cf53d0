// SPDX-License-Identifier: Apache-2.0
// zlib.

typedef unsigned char Byte;
typedef Byte Bytef;
typedef unsigned int uInt;
typedef unsigned long uLong;
typedef struct z_stream_s *z_streamp;
typedef struct gzFile_s *gzFile;

// Checksums.
uLong crc32(uLong crc HEX, const Bytef *buffer, uInt size) HEX;
uLong crc32_z(uLong crc HEX, const Bytef *buffer, size_t size) HEX;
uLong crc32_combine(uLong a HEX, uLong b HEX, long b_size) HEX;
uLong crc32_combine64(uLong a HEX, uLong b HEX, long b_size) HEX;
uLong adler32(uLong adler HEX, const Bytef *buffer, uInt size) HEX;
uLong adler32_z(uLong adler HEX, const Bytef *buffer, size_t size) HEX;
uLong adler32_combine(uLong a HEX, uLong b HEX, long b_size) HEX;
const uint32_t *get_crc_table(void);

// Streams. Z_BUF_ERROR is negative, but a way to say: give me more room.
int deflateInit_(z_streamp stream, int level ENUM(zlib_level), const char *version, int size)
	ENUM(zlib) FAILS(< 0) ERRNO(none);
int deflateInit2_(z_streamp stream, int level ENUM(zlib_level), int method ENUM(zlib_method),
		  int window_bits, int memory_level, int strategy ENUM(zlib_strategy),
		  const char *version, int size) ENUM(zlib) FAILS(< 0) ERRNO(none);
int deflate(z_streamp stream, int flush ENUM(zlib_flush)) ENUM(zlib) FAILS(< 0) ERRNO(none);
int deflateEnd(z_streamp stream) ENUM(zlib) FAILS(< 0) ERRNO(none);
int deflateReset(z_streamp stream) ENUM(zlib) FAILS(< 0) ERRNO(none)
	ALSO(deflateResetKeep);
int deflateParams(z_streamp stream, int level ENUM(zlib_level), int strategy ENUM(zlib_strategy))
	ENUM(zlib) FAILS(< 0) ERRNO(none);
int deflateSetDictionary(z_streamp stream, const Bytef *dictionary, uInt size)
	ENUM(zlib) FAILS(< 0) ERRNO(none);
int deflateCopy(z_streamp to, z_streamp from) ENUM(zlib) FAILS(< 0) ERRNO(none);
uLong deflateBound(z_streamp stream, uLong size);
int deflatePending(z_streamp stream, unsigned int *bytes OUT(success), int *bits OUT(success))
	ENUM(zlib) FAILS(< 0) ERRNO(none);
int deflatePrime(z_streamp stream, int bits, int value) ENUM(zlib) FAILS(< 0) ERRNO(none);
int deflateTune(z_streamp stream, int good, int lazy, int nice, int chain)
	ENUM(zlib) FAILS(< 0) ERRNO(none);
int inflateInit_(z_streamp stream, const char *version, int size)
	ENUM(zlib) FAILS(< 0) ERRNO(none);
int inflateInit2_(z_streamp stream, int window_bits, const char *version, int size)
	ENUM(zlib) FAILS(< 0) ERRNO(none);
int inflate(z_streamp stream, int flush ENUM(zlib_flush)) ENUM(zlib) FAILS(< 0) ERRNO(none);
int inflateEnd(z_streamp stream) ENUM(zlib) FAILS(< 0) ERRNO(none);
int inflateReset(z_streamp stream) ENUM(zlib) FAILS(< 0) ERRNO(none)
	ALSO(inflateResetKeep);
int inflateReset2(z_streamp stream, int window_bits) ENUM(zlib) FAILS(< 0) ERRNO(none);
int inflateSetDictionary(z_streamp stream, const Bytef *dictionary, uInt size)
	ENUM(zlib) FAILS(< 0) ERRNO(none);
int inflateSync(z_streamp stream) ENUM(zlib) FAILS(< 0) ERRNO(none);
int inflateCopy(z_streamp to, z_streamp from) ENUM(zlib) FAILS(< 0) ERRNO(none);
int inflatePrime(z_streamp stream, int bits, int value) ENUM(zlib) FAILS(< 0) ERRNO(none);
int inflateBackInit_(z_streamp stream, int window_bits, unsigned char *window, const char *version,
		     int size) ENUM(zlib) FAILS(< 0) ERRNO(none);
int inflateBackEnd(z_streamp stream) ENUM(zlib) FAILS(< 0) ERRNO(none);

// Whole buffers.
int compress(Bytef *to, uLong *to_size IN OUT(success), const Bytef *from, uLong size)
	ENUM(zlib) FAILS(< 0) ERRNO(none);
int compress2(Bytef *to, uLong *to_size IN OUT(success), const Bytef *from, uLong size,
	      int level ENUM(zlib_level)) ENUM(zlib) FAILS(< 0) ERRNO(none);
uLong compressBound(uLong size);
int uncompress(Bytef *to, uLong *to_size IN OUT(success), const Bytef *from, uLong size)
	ENUM(zlib) FAILS(< 0) ERRNO(none);
int uncompress2(Bytef *to, uLong *to_size IN OUT(success), const Bytef *from, uLong *size IN OUT(success))
	ENUM(zlib) FAILS(< 0) ERRNO(none);

// Files. What gzread and its relatives fail of says gzerror, not errno.
gzFile gzopen(const char *path, const char *mode) FAILS(== NULL) ERRNO(changed) ALSO(gzopen64);
gzFile gzdopen(int fd, const char *mode) FAILS(== NULL) ERRNO(changed);
int gzbuffer(gzFile file, unsigned int size) FAILS(< 0) ERRNO(none);
int gzsetparams(gzFile file, int level ENUM(zlib_level), int strategy ENUM(zlib_strategy))
	ENUM(zlib) FAILS(< 0) ERRNO(none);
int gzread(gzFile file, void *buffer OUT(success) BYTES(result), unsigned int size)
	FAILS(< 0) ERRNO(none);
size_t gzfread(void *buffer OUT(always) BYTES(result * size), size_t size, size_t count,
	       gzFile file);
int gzwrite(gzFile file, const void *buffer BYTES(size), unsigned int size);
size_t gzfwrite(const void *buffer BYTES(size * count), size_t size, size_t count, gzFile file);
int gzprintf(gzFile file, const char *format FORMAT(printf), ...) FAILS(< 0) ERRNO(none);
int gzputs(gzFile file, const char *s) FAILS(< 0) ERRNO(none);
char *gzgets(gzFile file, char *s OUT(result != NULL) LIMIT(size), int size) POINTER;
int gzputc(gzFile file, int c CHAR) CHAR FAILS(< 0) ERRNO(none);
int gzgetc(gzFile file) CHAR ALSO(gzgetc_);
int gzungetc(int c CHAR, gzFile file) CHAR;
int gzflush(gzFile file, int flush ENUM(zlib_flush)) ENUM(zlib) FAILS(< 0) ERRNO(none);
long gzseek(gzFile file, long offset, int whence ENUM(whence)) FAILS(< 0) ERRNO(none)
	ALSO(gzseek64);
int gzrewind(gzFile file) FAILS(< 0) ERRNO(none);
long gztell(gzFile file) FAILS(< 0) ERRNO(none) ALSO(gztell64);
long gzoffset(gzFile file) FAILS(< 0) ERRNO(none) ALSO(gzoffset64);
int gzeof(gzFile file);
int gzdirect(gzFile file);
int gzclose(gzFile file) ENUM(zlib) FAILS(< 0) ERRNO(none) ALSO(gzclose_r, gzclose_w);
const char *gzerror(gzFile file, int *error OUT(result != NULL) ENUM(zlib));
void gzclearerr(gzFile file);

// About itself.
const char *zlibVersion(void);
uLong zlibCompileFlags(void) HEX;
const char *zError(int error ENUM(zlib));
