/* Uses every function of scatterheap.h, well and wrongly, on the device of its argument. Built as C and as C++. */
#include <scatterheap.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures = 0;

#define EXPECT(condition)                                                                                            \
    do {                                                                                                             \
        if (!(condition)) {                                                                                          \
            printf("line %d: not so: %s; last error: %s\n", __LINE__, #condition, scatterheap_last_error());         \
            failures++;                                                                                              \
        }                                                                                                            \
    } while (0)

/* Whether the last error names something. */
static int said(const char *word) {
    if (strstr(scatterheap_last_error(), word)) return 1;
    printf("the last error does not say `%s`: %s\n", word, scatterheap_last_error());
    return 0;
}

/* Whether the structures are as large as the library, which asserts the same of its own, takes them to be. */
static void sizes(void) {
    EXPECT(sizeof(scatterheap_handle) == 88 && sizeof(scatterheap_occupancy) == 96 && sizeof(scatterheap_block) == 16);
    EXPECT(sizeof(scatterheap_statistics) == 128 && sizeof(scatterheap_place) == 24);
    EXPECT(sizeof(scatterheap_leak) == 32);
}

static void blocks(const char *device) {
    scatterheap_resource *memory = scatterheap_create(device, "statistics,tracking,limit=64MiB,caching");
    EXPECT(memory != NULL);
    void *first = scatterheap_allocate(memory, 1000, 256, NULL);
    void *second = scatterheap_allocate(memory, 1000, SCATTERHEAP_ALIGNMENT, NULL);
    EXPECT(first && second && first != second);
    EXPECT((uintptr_t)first % SCATTERHEAP_ALIGNMENT == 0);
    if (strncmp(device, "cpu", 3) == 0) {
        memset(first, 1, 1000);
        memset(second, 2, 1000);
        EXPECT(((char *)first)[999] == 1);
    }

    scatterheap_statistics statistics;
    EXPECT(scatterheap_get_statistics(memory, &statistics) == 0);
    EXPECT(statistics.live_blocks == 2 && statistics.live_bytes == 2000);
    EXPECT(statistics.allocations == 2 && statistics.peak_bytes == 2000 && statistics.failures == 0);
    EXPECT(statistics.reserved_bytes >= 2048 && statistics.free_pieces >= 1);
    EXPECT(statistics.peak_reserved_bytes == statistics.reserved_bytes);
    scatterheap_place places[4];
    size_t count = scatterheap_places(memory, places, 4);
    EXPECT(count >= 2 && count <= 4 && places[0].begins_segment == 1);
    EXPECT(places[count - 1].is_free == 1);

    char text[4096];
    size_t length = scatterheap_report(memory, text, sizeof text);
    EXPECT(length == strlen(text) && strstr(text, "2 blocks of 1.95 KiB are live"));
    EXPECT(scatterheap_report(memory, text, 5) == length && strlen(text) == 4);
    EXPECT(scatterheap_report(memory, NULL, 0) == length);

    EXPECT(scatterheap_record_stream(memory, first, NULL) == 0);
    EXPECT(scatterheap_deallocate(memory, first, 1000, 256, NULL) == 0);
    EXPECT(scatterheap_deallocate(memory, second, 1000, 256, NULL) == 0);
    EXPECT(scatterheap_allocate(memory, 1000, 256, NULL) == second);
    uint64_t given = 0;
    EXPECT(scatterheap_trim(memory, &given) == 0);
    EXPECT(scatterheap_flush(memory) == 0);
    EXPECT(scatterheap_destroy(memory) == 0); /* With a block that is live. */
}

static void peak(const char *device) {
    scatterheap_resource *memory = scatterheap_create(device, "device");
    void *block = scatterheap_allocate(memory, 1000, 256, NULL);
    EXPECT(block);
    EXPECT(scatterheap_deallocate(memory, block, 1000, 256, NULL) == 0);
    scatterheap_statistics statistics;
    EXPECT(scatterheap_get_statistics(memory, &statistics) == 0);
    EXPECT(statistics.reserved_bytes == 0 && statistics.peak_reserved_bytes >= 1000);
    EXPECT(scatterheap_destroy(memory) == 0);
}

static void misuse(const char *device) {
    scatterheap_resource *memory = scatterheap_create(device, "limit=1MiB,caching");
    void *block = scatterheap_allocate(memory, 1000, 256, NULL);
    EXPECT(block);
    EXPECT(scatterheap_deallocate(memory, block, 2000, 256, NULL) == -1 && said("1000 B"));
    EXPECT(scatterheap_deallocate(memory, (char *)block + 256, 1000, 256, NULL) == -1 && said("did not hand it out"));
    EXPECT(scatterheap_deallocate(memory, block, 1000, 256, NULL) == 0);
    EXPECT(scatterheap_deallocate(memory, block, 1000, 256, NULL) == -1 && said("has it back already"));
    EXPECT(scatterheap_deallocate(memory, NULL, 1000, 256, NULL) == -1 && said("NULL"));
    EXPECT(!scatterheap_allocate(memory, 0, 256, NULL) && said("0 bytes"));
    EXPECT(!scatterheap_allocate(memory, SIZE_MAX, 256, NULL) && said("asked for"));
    EXPECT(!scatterheap_allocate(memory, 1000, 3, NULL) && said("power of two"));
    EXPECT(!scatterheap_allocate(memory, 2 << 20, 256, NULL));
    EXPECT(strncmp(scatterheap_last_error(), "out of memory", 13) == 0);
    EXPECT(!scatterheap_allocate(NULL, 1000, 256, NULL) && said("NULL"));
    EXPECT(scatterheap_get_statistics(memory, NULL) == -1 && said("NULL"));
    EXPECT(scatterheap_reset(memory) == -1 && said("arena"));
    EXPECT(scatterheap_places(memory, NULL, 3) == SIZE_MAX && said("NULL"));
    EXPECT(scatterheap_report(memory, NULL, 1) == SIZE_MAX && said("NULL"));
    EXPECT(scatterheap_destroy(memory) == 0);
    EXPECT(scatterheap_destroy(memory) == -1 && said("destroyed"));
    EXPECT(!scatterheap_allocate(memory, 1000, 256, NULL) && said("destroyed"));
    EXPECT(scatterheap_report(memory, NULL, 0) == SIZE_MAX && said("destroyed"));
    EXPECT(scatterheap_destroy(NULL) == -1 && said("NULL"));
    memory = scatterheap_create(device, "trace=/dev/full,caching");
    EXPECT(scatterheap_allocate(memory, 1000, 256, NULL));
    EXPECT(scatterheap_destroy(memory) == -1 && said("No space left"));
    EXPECT(scatterheap_destroy(memory) == -1 && said("destroyed")); /* It is, all the same. */

    EXPECT(!scatterheap_create(device, "cashing") && said("`cashing`"));
    EXPECT(!scatterheap_create("tpu", "caching") && said("`tpu`"));
    EXPECT(!scatterheap_create(NULL, "caching") && said("NULL"));
    EXPECT(!scatterheap_create(device, "\xff\xfe") && said("UTF-8"));
    EXPECT(!scatterheap_create(device, "trace=/no/such/directory/file,caching") && said("another file"));
}

/* Lines of a file; -1 if there is none. */
static int lines(const char *file) {
    FILE *opened = fopen(file, "r");
    if (!opened) return -1;
    int count = 0, letter;
    while ((letter = getc(opened)) != EOF) count += letter == '\n';
    fclose(opened);
    return count;
}

/* A child that was forked writes nothing of its parent's trace, neither what it does itself nor when it ends. A process that
 * used a GPU cannot be forked. */
static void forks(const char *device) {
    if (strncmp(device, "cpu", 3) != 0) return;
    char file[] = "/tmp/scatterheap-trace-XXXXXX", composition[100];
    int opened = mkstemp(file);
    EXPECT(opened >= 0 && close(opened) == 0);
    snprintf(composition, sizeof composition, "trace=%s,caching", file);
    scatterheap_resource *memory = scatterheap_create(device, composition);
    EXPECT(scatterheap_allocate(memory, 1000, 256, NULL) != NULL);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) exit(scatterheap_allocate(memory, 2000, 256, NULL) == NULL || scatterheap_flush(memory) != 0);
    int status = 1;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    EXPECT(lines(file) == 0); /* Of the parent nothing is written yet. */
    EXPECT(scatterheap_destroy(memory) == 0 && lines(file) == 2);
    EXPECT(unlink(file) == 0);
}

static void arena(const char *device) {
    scatterheap_resource *memory = scatterheap_create(device, "arena=16MiB");
    void *first = scatterheap_allocate(memory, 1000, 256, NULL);
    void *second = scatterheap_allocate(memory, 1000, 256, NULL);
    EXPECT(first && second == (void *)((char *)first + 1024));
    EXPECT(scatterheap_reset(memory) == 0);
    EXPECT(scatterheap_allocate(memory, 1000, 256, NULL) == first);
    EXPECT(scatterheap_places(memory, NULL, 0) == 0);
    EXPECT(scatterheap_destroy(memory) == 0);
}

/* The default resource of device 0. */
static void torch(void) {
    EXPECT(scatterheap_configure_default("nonsense") == -1 && said("nonsense"));
    EXPECT(scatterheap_configure_default("statistics,limit=1GiB,caching") == 0);
    EXPECT(!scatterheap_torch_allocate(0, 0, NULL));
    scatterheap_torch_free(NULL, 0, 0, NULL);
    EXPECT(!scatterheap_torch_allocate(1000, -1, NULL) && said("-1"));
    void *block = scatterheap_torch_allocate(1000, 0, NULL);
    EXPECT(block);
    scatterheap_resource *memory = scatterheap_default(0);
    scatterheap_statistics statistics;
    EXPECT(memory && memory == scatterheap_default(0));
    EXPECT(scatterheap_configure_default("caching") == -1 && said("before the first use"));
    EXPECT(scatterheap_configure_default("statistics,limit=1GiB,caching") == 0);
    scatterheap_torch_record_stream(block, NULL);
    scatterheap_torch_record_stream(NULL, NULL);
    scatterheap_torch_free(block, 999, 0, NULL);
    EXPECT(said("999 B"));
    scatterheap_torch_free(block, 1000, 0, NULL);
    EXPECT(scatterheap_get_statistics(memory, &statistics) == 0);
    EXPECT(statistics.live_blocks == 0 && statistics.allocations == 1 && statistics.failures == 1);
    EXPECT(!scatterheap_torch_allocate((size_t)2 << 30, 0, NULL) && said("out of memory"));
    scatterheap_torch_empty_cache();
    EXPECT(scatterheap_get_statistics(memory, &statistics) == 0 && statistics.reserved_bytes == 0);
    EXPECT(scatterheap_destroy(memory) == -1 && said("as long as the process"));
    EXPECT(!scatterheap_default(1000) && said("1000"));
    block = scatterheap_torch_allocate_or_throw(1000, 0, NULL);
    EXPECT(block);
    scatterheap_torch_free(block, 1000, 0, NULL);
}

static void heaps(const char *device) {
    scatterheap_heap *heap = scatterheap_heap_create(device, "1MiB,max=64MiB,count-bytes");
    EXPECT(heap != NULL);
    /* Nothing is written beyond a handle. */
    scatterheap_handle handles[3];
    memset(handles, 0, sizeof handles);
    EXPECT(scatterheap_heap_handle(heap, &handles[0]) == 0 && handles[0].words[0] != 0 && handles[1].words[0] == 0);
    scatterheap_occupancy occupancy;
    EXPECT(scatterheap_heap_snapshot(heap, &occupancy) == 0);
    /* GPUs map memory in pieces, of 2 MiB for one. */
    EXPECT(occupancy.capacity >= 1 << 20 && occupancy.largest_capacity >= 64 << 20);
    EXPECT(occupancy.used_blocks == 0 && occupancy.used_bytes == 0 && occupancy.largest_request == occupancy.capacity);
    EXPECT(occupancy.free_pages * occupancy.page_bytes == occupancy.capacity && occupancy.slab_pages + occupancy.run_pages == 0);
    EXPECT(occupancy.failures == 0 && occupancy.misuses == 0 && occupancy.fragmentation == 0.0);
    uint64_t capacity = 0;
    EXPECT(scatterheap_heap_grow(heap, 1 << 20, &capacity) == 0 && capacity >= 2 << 20);
    EXPECT(scatterheap_heap_attend(heap, &capacity) == 0 && capacity >= 2 << 20);
    EXPECT(scatterheap_heap_grow(heap, 1 << 30, NULL) == -1 && said("64 MiB"));
    EXPECT(scatterheap_heap_blocks(heap, NULL, 0) == 0);
    EXPECT(scatterheap_heap_blocks(heap, NULL, 1) == SIZE_MAX && said("NULL"));
    EXPECT(scatterheap_heap_check(heap) == 0);
    EXPECT(scatterheap_heap_leaks(heap, NULL, 0, NULL) == SIZE_MAX && said("harden=tags"));
    char notice[8] = "before";
    EXPECT(scatterheap_heap_notice(heap, notice, sizeof notice) == 0 && notice[0] == 0);
    EXPECT(scatterheap_heap_notice(heap, NULL, 0) == 0);
    EXPECT(scatterheap_heap_notice(heap, NULL, 1) == SIZE_MAX && said("NULL"));
    EXPECT(scatterheap_heap_reset(heap) == 0);
    EXPECT(scatterheap_heap_handle(heap, &handles[1]) == 0 && handles[2].words[0] == 0);
    EXPECT(memcmp(&handles[0], &handles[1], sizeof handles[0]) != 0);
    EXPECT(scatterheap_heap_save(heap, "/no/such/directory/file") == -1 && said("/no/such/directory/file"));
    EXPECT(scatterheap_heap_save(heap, NULL) == -1 && said("NULL"));
    EXPECT(scatterheap_heap_handle(heap, NULL) == -1 && said("NULL"));
    int number = 0;
    if (sscanf(device, "cuda:%d", &number) == 1) {
        scatterheap_handle same;
        EXPECT(scatterheap_heap_handle_on(heap, number, &same) == 0 && memcmp(&same, &handles[1], sizeof same) == 0);
        EXPECT(scatterheap_heap_handle_on(heap, number, NULL) == -1 && said("NULL"));
    }
    EXPECT(scatterheap_heap_handle_on(heap, number + 1, &handles[2]) == -1 && said("create a heap on each device"));
    EXPECT(scatterheap_heap_handle_on(heap, -1, &handles[2]) == -1 && said("cuda:-1") && handles[2].words[0] == 0);
    EXPECT(scatterheap_heap_snapshot(heap, NULL) == -1 && said("NULL"));
    EXPECT(scatterheap_heap_destroy(heap) == 0);
    EXPECT(scatterheap_heap_destroy(heap) == -1 && said("a heap was used after it was destroyed"));
    EXPECT(scatterheap_heap_reset(heap) == -1 && said("destroyed"));
    EXPECT(scatterheap_heap_reset(NULL) == -1 && said("a heap of NULL"));
    EXPECT(scatterheap_heap_notice(heap, NULL, 0) == SIZE_MAX && said("destroyed"));
    heap = scatterheap_heap_create(device, "1MiB,harden=tags");
    uint64_t damaged = 1;
    EXPECT(scatterheap_heap_leaks(heap, NULL, 0, &damaged) == 0 && damaged == 0);
    EXPECT(scatterheap_heap_leaks(heap, NULL, 1, NULL) == SIZE_MAX && said("NULL"));
    EXPECT(scatterheap_heap_destroy(heap) == 0);
    EXPECT(!scatterheap_heap_create(device, "much") && said("`much`"));
    EXPECT(!scatterheap_heap_create(device, "1KiB") && said("smallest"));
    EXPECT(!scatterheap_heap_create("tpu", "1MiB") && said("`tpu`"));
    EXPECT(!scatterheap_heap_create(device, NULL) && said("NULL"));
}

int main(int count, char **arguments) {
    const char *device = count > 1 ? arguments[1] : "auto";
    printf("scatterheap %s, %d GPUs, on %s\n", scatterheap_version(), scatterheap_gpu_count(), device);
    EXPECT(strcmp(scatterheap_last_error(), "") == 0);
    if (strncmp(device, "cpu", 3) == 0) setenv("SCATTERHEAP_DEVICE", device, 1);
    sizes();
    blocks(device);
    peak(device);
    misuse(device);
    forks(device);
    arena(device);
    heaps(device);
    torch();
    printf(failures ? "%d expectations failed\n" : "all as expected\n", failures);
    return failures != 0;
}
